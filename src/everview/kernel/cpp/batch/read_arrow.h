// Arrow's columns as rows of words, chunk by chunk. What is not plainly right is left to who can say what is wrong.
#pragma once

#include "../arrow/arrow.h"
#include "rows.h"

namespace everview {
namespace arrow {

// As in https://arrow.apache.org/docs/format/CStreamInterface.html.
struct Stream {
  int (*get_schema)(Stream*, Schema* out);
  int (*get_next)(Stream*, Array* out);
  const char* (*get_last_error)(Stream*);
  void (*release)(Stream*);
  void* private_data;
};

// What a stream gives, freed at the end.
template <class T>
struct Held {
  T item = {};
  Held() = default;
  Held(const Held&) = delete;
  Held& operator=(const Held&) = delete;
  ~Held() {
    if (item.release != nullptr) item.release(&item);
  }
};

}  // namespace arrow

class ArrowReader {
 public:
  explicit ArrowReader(std::vector<ColumnType> types) : types_(std::move(types)) {}

  // The rows of a stream of record batches, which are valid; none if a column's type is not read here, or a value does
  // not fit.
  std::unique_ptr<ReadRows> read(nb::handle stream_capsule, std::size_t rows) const {
    auto* const stream = static_cast<arrow::Stream*>(PyCapsule_GetPointer(stream_capsule.ptr(), "arrow_array_stream"));
    if (stream == nullptr) throw nb::python_error();
    arrow::Held<arrow::Schema> schema;
    if (stream->get_schema(stream, &schema.item) != 0) return nullptr;
    if (static_cast<std::size_t>(schema.item.n_children) != types_.size()) return nullptr;
    auto made = std::make_unique<ReadRows>(types_, rows);
    std::size_t first = 0;
    while (true) {
      arrow::Held<arrow::Array> batch;
      if (stream->get_next(stream, &batch.item) != 0) return nullptr;
      if (batch.item.release == nullptr) break;
      const auto size = static_cast<std::size_t>(batch.item.length);
      if (batch.item.offset != 0 || first + size > rows) return nullptr;
      for (std::size_t c = 0; c < types_.size(); ++c) {
        const arrow::Schema& type = *schema.item.children[c];
        const arrow::Array& array = *batch.item.children[c];
        if (type.dictionary != nullptr || static_cast<std::size_t>(array.length) < size) return nullptr;
        if (!put(type.format, array, first, size, made->columns()[c])) return nullptr;
      }
      first += size;
    }
    return first == rows ? std::move(made) : nullptr;
  }

 private:
  struct Valid {
    const std::uint8_t* bits;
    std::size_t first;
    bool operator[](std::size_t i) const noexcept {
      return bits == nullptr || (bits[(first + i) / 8] >> ((first + i) % 8) & 1) != 0;
    }
  };

  static bool put(const std::string& format, const arrow::Array& array, std::size_t first, std::size_t size,
                  ReadColumn& column) {
    using Kind = ColumnType::Kind;
    const auto* const bits = array.null_count == 0 ? nullptr : static_cast<const std::uint8_t*>(array.buffers[0]);
    const auto offset = static_cast<std::size_t>(array.offset);
    const Valid valid{bits, offset};
    if (size == 0) return true;
    const void* const data = array.n_buffers > 1 ? array.buffers[1] : nullptr;
    switch (column.type.kind) {
      case Kind::kString:
      case Kind::kBinary: {
        const bool text = column.type.kind == Kind::kString;
        const char* const bytes = array.n_buffers == 3 ? static_cast<const char*>(array.buffers[2]) : nullptr;
        if (format == (text ? "u" : "z")) {
          return put_bytes(static_cast<const std::int32_t*>(data) + offset, bytes, valid, size, column);
        }
        if (format == (text ? "U" : "Z")) {
          return put_bytes(static_cast<const std::int64_t*>(data) + offset, bytes, valid, size, column);
        }
        return false;
      }
      case Kind::kBoolean:
        if (format != "b") return false;
        return numbers(valid, first, size, column, [bits = static_cast<const std::uint8_t*>(data), offset](std::size_t i) {
          return Exact{bits[(offset + i) / 8] >> ((offset + i) % 8) & 1};
        });
      case Kind::kFloat:
      case Kind::kDouble:
        if (format == "g" && column.type.kind == Kind::kDouble) {
          return doubles(static_cast<const double*>(data) + offset, valid, first, size, column);
        }
        return format == "f" && doubles(static_cast<const float*>(data) + offset, valid, first, size, column);
      case Kind::kDecimal: {
        const std::string wanted =
            "d:" + std::to_string(column.type.precision) + "," + std::to_string(column.type.scale);
        if (format != wanted && format != wanted + ",128") return false;
        return numbers(valid, first, size, column, [data, offset](std::size_t i) {
          Exact number = 0;
          std::memcpy(&number, static_cast<const char*>(data) + (offset + i) * sizeof number, sizeof number);
          return number;
        });
      }
      case Kind::kDate:
        return format == "tdD" && plain(static_cast<const std::int32_t*>(data) + offset, valid, first, size, column);
      case Kind::kTimestamp:
      case Kind::kTimestampNtz:
        if (format.rfind("tsu:", 0) != 0 || (column.type.kind == Kind::kTimestampNtz && format != "tsu:")) return false;
        return plain(static_cast<const std::int64_t*>(data) + offset, valid, first, size, column);
      default:
        return integers(format, data, offset, valid, first, size, column);
    }
  }

  static bool integers(const std::string& format, const void* data, std::size_t offset, Valid valid, std::size_t first,
                       std::size_t size, ReadColumn& column) {
    if (format.size() != 1) return false;
    switch (format[0]) {
      case 'c':
        return plain(static_cast<const std::int8_t*>(data) + offset, valid, first, size, column);
      case 'C':
        return plain(static_cast<const std::uint8_t*>(data) + offset, valid, first, size, column);
      case 's':
        return plain(static_cast<const std::int16_t*>(data) + offset, valid, first, size, column);
      case 'S':
        return plain(static_cast<const std::uint16_t*>(data) + offset, valid, first, size, column);
      case 'i':
        return plain(static_cast<const std::int32_t*>(data) + offset, valid, first, size, column);
      case 'I':
        return plain(static_cast<const std::uint32_t*>(data) + offset, valid, first, size, column);
      case 'l':
        return plain(static_cast<const std::int64_t*>(data) + offset, valid, first, size, column);
      case 'L':
        return plain(static_cast<const std::uint64_t*>(data) + offset, valid, first, size, column);
      default:
        return false;
    }
  }

  template <class Number>
  static bool plain(const Number* data, Valid valid, std::size_t first, std::size_t size, ReadColumn& column) {
    return numbers(valid, first, size, column, [data](std::size_t i) { return Exact{data[i]}; });
  }

  template <class Get>
  static bool numbers(Valid valid, std::size_t first, std::size_t size, ReadColumn& column, Get&& get) {
    Word* const words = column.waiting == nullptr ? column.words.words.get() + first : nullptr;
    const ColumnType type = column.type;
    for (std::size_t i = 0; i < size; ++i) {
      if (!valid[i]) {
        if (type.required) return false;
        column.has_nulls = true;
        words == nullptr ? column.waiting->add_null() : void(words[i] = ValueTable::kNull);
        continue;
      }
      const Exact number = get(i);
      if (!type.holds(number)) return false;
      if (words != nullptr) {
        words[i] = low_word(number);
        continue;
      }
      const StoredDecimal stored = to_stored(number, type.scale);
      column.waiting->add(reinterpret_cast<const char*>(stored.data()), sizeof stored);
    }
    return true;
  }

  template <class Number>
  static bool doubles(const Number* data, Valid valid, std::size_t first, std::size_t size, ReadColumn& column) {
    Word* const words = column.words.words.get() + first;
    for (std::size_t i = 0; i < size; ++i) {
      const bool there = valid[i];
      if (!there && column.type.required) return false;
      column.has_nulls |= !there;
      words[i] = there ? word_of_double(static_cast<double>(data[i])) : ValueTable::kNull;
    }
    return true;
  }

  template <class Offset>
  static bool put_bytes(const Offset* offsets, const char* bytes, Valid valid, std::size_t size, ReadColumn& column) {
    for (std::size_t i = 0; i < size; ++i) {
      if (valid[i]) {
        const auto length = static_cast<std::size_t>(offsets[i + 1] - offsets[i]);
        column.waiting->add(length == 0 ? "" : bytes + offsets[i], length);
        continue;
      }
      if (column.type.required) return false;
      column.has_nulls = true;
      column.waiting->add_null();
    }
    return true;
  }

  std::vector<ColumnType> types_;
};

}  // namespace everview

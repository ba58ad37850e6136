// Arrow's columns as those of a table, chunk by chunk: offsets, NULLs, dictionaries, views, large texts, units of time.
// What is not plainly right is left to who can say what is wrong.
#pragma once

#include "../arrow/arrow.h"
#include "rows.h"

namespace everview {

class ArrowValues {
 public:
  // Puts `size` values of a valid array, row by row from `first` on; false if its type is not read here, or one of its
  // values does not fit.
  static bool put(const arrow::Schema& type, const arrow::Array& array, std::size_t first, std::size_t size,
                  ReadColumn& column) {
    const std::string format = type.format;
    if (format == "n") return nulls(first, size, column);
    if (static_cast<std::size_t>(array.length) < size) return false;
    if (type.dictionary != nullptr) return put_chosen(type, array, first, size, column);
    return put_plain(format, array, first, size, column);
  }

  // Change types, as signs; false if one of them is none.
  static bool signs(const arrow::Schema& type, const arrow::Array& array, std::size_t size, Word* out) {
    if (static_cast<std::size_t>(array.length) < size) return false;
    if (type.dictionary != nullptr) {
      const auto count = static_cast<std::size_t>(array.dictionary->length);
      std::vector<Word> known(count);
      const auto made = texts(type.dictionary->format, *array.dictionary, true, [&](auto&& text) {
        for (std::size_t i = 0; i < count; ++i) known[i] = text.valid[i] ? sign_of(text[i]) : 0;
        return true;
      });
      return made && each_index(type.format, array, size, [&](std::size_t i, bool there, std::size_t at) {
        out[i] = there && at < count ? known[at] : 0;
        return out[i] != 0;
      });
    }
    return texts(type.format, array, true, [&](auto&& text) {
      for (std::size_t i = 0; i < size; ++i) {
        out[i] = text.valid[i] ? sign_of(text[i]) : 0;
        if (out[i] == 0) return false;
      }
      return true;
    });
  }

 private:
  struct Valid {
    const std::uint8_t* bits;
    std::size_t first;
    bool operator[](std::size_t i) const noexcept {
      return bits == nullptr || (bits[(first + i) / 8] >> ((first + i) % 8) & 1) != 0;
    }
  };

  static std::size_t offset_of(const arrow::Array& array) noexcept { return static_cast<std::size_t>(array.offset); }

  static Valid valid_of(const arrow::Array& array) noexcept {
    const bool all = array.null_count == 0 || array.n_buffers == 0;
    return {all ? nullptr : static_cast<const std::uint8_t*>(array.buffers[0]), offset_of(array)};
  }

  template <class T>
  static const T* data_of(const arrow::Array& array) noexcept {
    return array.n_buffers > 1 ? static_cast<const T*>(array.buffers[1]) + array.offset : nullptr;
  }

  static bool nulls(std::size_t first, std::size_t size, ReadColumn& column) {
    for (std::size_t i = 0; i < size; ++i) {
      if (!column.put_null(first + i)) return false;
    }
    return true;
  }

  // --- texts and bytes, however they lie ---------------------------------------------------------------------------

  template <class Offset>
  struct Packed {
    const Offset* offsets;
    const char* bytes;
    Valid valid;
    std::string_view operator[](std::size_t i) const noexcept {
      const auto size = static_cast<std::size_t>(offsets[i + 1] - offsets[i]);
      return size == 0 ? std::string_view("") : std::string_view(bytes + offsets[i], size);
    }
  };

  struct Views {
    const char* views;
    const void* const* buffers;  // The first of those with the texts that are too long for a view.
    Valid valid;
    std::string_view operator[](std::size_t i) const noexcept {
      const char* const view = views + 16 * i;
      const auto size = static_cast<std::size_t>(number(view));
      if (size == 0) return "";
      if (size <= 12) return {view + 4, size};
      return {static_cast<const char*>(buffers[number(view + 8)]) + number(view + 12), size};
    }
    static std::int32_t number(const char* from) noexcept {
      std::int32_t found = 0;
      std::memcpy(&found, from, sizeof found);
      return found;
    }
  };

  struct Fixed {
    const char* bytes;
    std::size_t width;
    Valid valid;
    std::string_view operator[](std::size_t i) const noexcept {
      return width == 0 ? std::string_view("") : std::string_view(bytes + i * width, width);
    }
  };

  // What `use` gives for the values; false if they are no texts, or no bytes.
  template <class Use>
  static bool texts(const std::string& format, const arrow::Array& array, bool are_text, Use&& use) {
    const Valid valid = valid_of(array);
    const char* const bytes = array.n_buffers > 2 ? static_cast<const char*>(array.buffers[2]) : nullptr;
    if (format == (are_text ? "u" : "z")) return use(Packed<std::int32_t>{data_of<std::int32_t>(array), bytes, valid});
    if (format == (are_text ? "U" : "Z")) return use(Packed<std::int64_t>{data_of<std::int64_t>(array), bytes, valid});
    if (format == (are_text ? "vu" : "vz")) {
      const auto* const views = static_cast<const char*>(array.buffers[1]) + 16 * array.offset;
      return use(Views{views, array.buffers + 2, valid});
    }
    if (!are_text && format.rfind("w:", 0) == 0) {
      const std::size_t width = std::stoul(format.substr(2));
      return use(Fixed{static_cast<const char*>(array.buffers[1]) + width * offset_of(array), width, valid});
    }
    return false;
  }

  // --- dictionaries ------------------------------------------------------------------------------------------------

  // Calls `use(i, there, index)` for each row until it says false.
  template <class Use>
  static bool each_index(const std::string& format, const arrow::Array& array, std::size_t size, Use&& use) {
    const Valid valid = valid_of(array);
    const auto all = [&](const auto* indexes) {
      for (std::size_t i = 0; i < size; ++i) {
        const bool there = valid[i];
        if (!use(i, there, there ? static_cast<std::size_t>(indexes[i]) : 0)) return false;
      }
      return true;
    };
    return format.size() == 1 && with_integers(format[0], array, all);
  }

  static bool put_chosen(const arrow::Schema& type, const arrow::Array& array, std::size_t first, std::size_t size,
                         ReadColumn& column) {
    const arrow::Array& values = *array.dictionary;
    const auto count = static_cast<std::size_t>(values.length);
    if (type.dictionary->dictionary != nullptr) return false;
    if (is_bytes(column)) {
      const bool are_text = column.type.kind == ColumnType::Kind::kString;
      return texts(type.dictionary->format, values, are_text, [&](auto&& text) {
        return each_index(type.format, array, size, [&](std::size_t i, bool there, std::size_t at) {
          if (!there || at >= count || !text.valid[at]) return column.put_null(first + i);
          const std::string_view found = text[at];
          return column.put_text(found.data(), found.size());
        });
      });
    }
    ColumnType listed = column.type;
    listed.required = false;
    ReadColumn known(listed, count);
    if (!put(*type.dictionary, values, 0, count, known)) return false;
    return each_index(type.format, array, size, [&](std::size_t i, bool there, std::size_t at) {
      if (!there || at >= count) return column.put_null(first + i);
      return column.put_known(first + i, known, at);
    });
  }

  static bool is_bytes(const ReadColumn& column) noexcept {
    return column.type.kind == ColumnType::Kind::kString || column.type.kind == ColumnType::Kind::kBinary;
  }

  // --- numbers, days and instants ----------------------------------------------------------------------------------

  // What `use` gives for an array of integers of the format; false if it is none of those.
  template <class Use>
  static bool with_integers(char format, const arrow::Array& array, Use&& use) {
    switch (format) {
      case 'c':
        return use(data_of<std::int8_t>(array));
      case 'C':
        return use(data_of<std::uint8_t>(array));
      case 's':
        return use(data_of<std::int16_t>(array));
      case 'S':
        return use(data_of<std::uint16_t>(array));
      case 'i':
        return use(data_of<std::int32_t>(array));
      case 'I':
        return use(data_of<std::uint32_t>(array));
      case 'l':
        return use(data_of<std::int64_t>(array));
      case 'L':
        return use(data_of<std::uint64_t>(array));
      default:
        return false;
    }
  }

  static bool put_plain(const std::string& format, const arrow::Array& array, std::size_t first, std::size_t size,
                        ReadColumn& column) {
    using Kind = ColumnType::Kind;
    const Valid valid = valid_of(array);
    if (size == 0) return true;
    switch (column.type.kind) {
      case Kind::kString:
      case Kind::kBinary:
        return texts(format, array, column.type.kind == Kind::kString, [&](auto&& text) {
          for (std::size_t i = 0; i < size; ++i) {
            if (!text.valid[i]) {
              if (!column.put_null(first + i)) return false;
              continue;
            }
            const std::string_view found = text[i];
            if (!column.put_text(found.data(), found.size())) return false;
          }
          return true;
        });
      case Kind::kBoolean: {
        if (format != "b") return false;
        const auto* const bits = static_cast<const std::uint8_t*>(array.buffers[1]);
        const std::size_t offset = offset_of(array);
        return numbers(valid, first, size, column, [bits, offset](std::size_t i, Exact& number) {
          number = bits[(offset + i) / 8] >> ((offset + i) % 8) & 1;
          return true;
        });
      }
      case Kind::kFloat:
      case Kind::kDouble:
        if (format == "g") return doubles(data_of<double>(array), valid, first, size, column);
        if (format == "f") return doubles(data_of<float>(array), valid, first, size, column);
        return format.size() == 1 && with_integers(format[0], array, [&](const auto* data) {
          return doubles(data, valid, first, size, column);
        });
      case Kind::kDecimal:
        return decimals(format, array, valid, first, size, column);
      case Kind::kDate:
        if (format == "tdD") return moved(data_of<std::int32_t>(array), 1, 1, valid, first, size, column);
        return format == "tdm" && moved(data_of<std::int64_t>(array), 1, 86'400'000, valid, first, size, column);
      case Kind::kTimestamp:
      case Kind::kTimestampNtz:
        return instants(format, array, valid, first, size, column);
      default:
        return format.size() == 1 && with_integers(format[0], array, [&](const auto* data) {
          return numbers(valid, first, size, column, [data](std::size_t i, Exact& number) {
            number = data[i];
            return true;
          });
        });
    }
  }

  static bool instants(const std::string& format, const arrow::Array& array, Valid valid, std::size_t first,
                       std::size_t size, ReadColumn& column) {
    if (format.size() < 4 || format.rfind("ts", 0) != 0 || format[3] != ':') return false;
    if (column.type.kind == ColumnType::Kind::kTimestampNtz && format.size() != 4) return false;
    const auto* const data = data_of<std::int64_t>(array);
    switch (format[2]) {
      case 's':
        return moved(data, 1'000'000, 1, valid, first, size, column);
      case 'm':
        return moved(data, 1'000, 1, valid, first, size, column);
      case 'u':
        return moved(data, 1, 1, valid, first, size, column);
      case 'n':
        return moved(data, 1, 1'000, valid, first, size, column);
      default:
        return false;
    }
  }

  // Numbers in another unit, exactly.
  template <class Number>
  static bool moved(const Number* data, Exact factor, Exact divisor, Valid valid, std::size_t first, std::size_t size,
                    ReadColumn& column) {
    return numbers(valid, first, size, column, [data, factor, divisor](std::size_t i, Exact& number) {
      number = Exact{data[i]} * factor;
      if (divisor == 1) return true;
      if (number % divisor != 0) return false;
      number /= divisor;
      return true;
    });
  }

  // Decimals of 128 bits, of any scale, and integers.
  static bool decimals(const std::string& format, const arrow::Array& array, Valid valid, std::size_t first,
                       std::size_t size, ReadColumn& column) {
    const unsigned scale = column.type.scale;
    if (format.size() == 1) {
      const Exact factor = power_of_ten(scale);
      return with_integers(format[0], array, [&](const auto* data) {
        return numbers(valid, first, size, column, [data, factor](std::size_t i, Exact& number) {
          return !__builtin_mul_overflow(Exact{data[i]}, factor, &number);
        });
      });
    }
    if (format.rfind("d:", 0) != 0) return false;
    const std::size_t comma = format.find(','), second = format.find(',', comma + 1);
    if (comma == std::string::npos || (second != std::string::npos && format.substr(second) != ",128")) return false;
    const long given = std::stol(format.substr(comma + 1)), up = static_cast<long>(scale) - given;
    if (up > static_cast<long>(kMostDigits) || up < -static_cast<long>(kMostDigits)) return false;
    const Exact factor = power_of_ten(static_cast<unsigned>(up < 0 ? -up : up));
    const auto* const data = static_cast<const char*>(array.buffers[1]) + 16 * array.offset;
    return numbers(valid, first, size, column, [data, factor, up](std::size_t i, Exact& number) {
      std::memcpy(&number, data + 16 * i, sizeof number);
      if (up == 0) return true;
      if (up > 0) return !__builtin_mul_overflow(number, factor, &number);
      if (number % factor != 0) return false;
      number /= factor;
      return true;
    });
  }

  template <class Get>
  static bool numbers(Valid valid, std::size_t first, std::size_t size, ReadColumn& column, Get&& get) {
    for (std::size_t i = 0; i < size; ++i) {
      Exact number = 0;
      if (!valid[i]) {
        if (!column.put_null(first + i)) return false;
      } else if (!get(i, number) || !column.put_number(first + i, number)) {
        return false;
      }
    }
    return true;
  }

  template <class Number>
  static bool doubles(const Number* data, Valid valid, std::size_t first, std::size_t size, ReadColumn& column) {
    for (std::size_t i = 0; i < size; ++i) {
      if (!valid[i]) {
        if (!column.put_null(first + i)) return false;
        continue;
      }
      if constexpr (std::is_integral_v<Number>) {
        if (magnitude_of(Exact{data[i]}) > Magnitude{1} << 53) return false;
      }
      if (!column.put_double(first + i, static_cast<double>(data[i]))) return false;
    }
    return true;
  }
};

}  // namespace everview

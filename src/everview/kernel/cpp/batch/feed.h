// Rows of a change feed as an Arrow record batch.
#pragma once

#include "../arrow/arrow.h"
#include "../arrow/pairs.h"
#include "types.h"

namespace everview {

// An array's buffers, and what keeps them alive.
struct FeedColumn {
  std::vector<std::shared_ptr<void>> held;
  const void* buffers[3] = {nullptr, nullptr, nullptr};
  std::size_t buffer_count = 2;
  std::size_t nulls = 0;
};

class FeedBatch {
 public:
  FeedBatch(std::vector<FeedColumn> columns, std::size_t rows) : columns_(std::move(columns)), rows_(rows) {}

  std::size_t size() const noexcept { return rows_; }

  // As Arrow's own: a struct array with a child for each column. It can be taken once.
  nb::object take() {
    if (std::exchange(taken_, true)) raise(PyExc_ValueError, "the batch has been taken");
    auto owner = std::make_unique<Owner>();
    for (FeedColumn& column : columns_) owner->children.push_back(child(std::move(column), rows_));
    for (const auto& made : owner->children) owner->pointers.push_back(made.get());
    auto array = std::make_unique<arrow::Array>();
    *array = {static_cast<std::int64_t>(rows_), 0, 0, 1, static_cast<std::int64_t>(owner->pointers.size()),
              owner->buffers, owner->pointers.data(), nullptr,
              [](arrow::Array* self) {
                delete static_cast<Owner*>(self->private_data);
                self->release = nullptr;
              },
              owner.get()};
    owner.release();
    return arrow::to_capsule(std::move(array), "arrow_array",
                             [](PyObject* c) { arrow::free_capsule<arrow::Array>(c, "arrow_array"); });
  }

 private:
  struct Owner {
    ~Owner() {
      for (const auto& array : children) {
        if (array->release != nullptr) array->release(array.get());
      }
    }
    std::vector<std::unique_ptr<arrow::Array>> children;
    std::vector<arrow::Array*> pointers;
    const void* buffers[1] = {nullptr};
  };

  static std::unique_ptr<arrow::Array> child(FeedColumn column, std::size_t rows) {
    auto kept = std::make_unique<FeedColumn>(std::move(column));
    auto array = std::make_unique<arrow::Array>();
    *array = {static_cast<std::int64_t>(rows), static_cast<std::int64_t>(kept->nulls), 0,
              static_cast<std::int64_t>(kept->buffer_count), 0, kept->buffers, nullptr, nullptr,
              [](arrow::Array* self) {
                delete static_cast<FeedColumn*>(self->private_data);
                self->release = nullptr;
              },
              kept.get()};
    kept.release();
    return array;
  }

  std::vector<FeedColumn> columns_;
  std::size_t rows_;
  bool taken_ = false;
};

inline FeedColumn column_of_words(const Column& column) {
  FeedColumn made;
  made.held.push_back(column.words);
  made.buffers[1] = column.words.get();
  return made;
}

// Marks of the values that there are, one bit each.
class ValidBits {
 public:
  explicit ValidBits(std::size_t rows) : rows_(rows) {}
  void unset(std::size_t i) {
    if (bits_ == nullptr) {
      bits_ = std::make_shared<std::vector<std::uint8_t>>(rows_ / 8 + 1, std::uint8_t{0xff});
    }
    (*bits_)[i / 8] = static_cast<std::uint8_t>((*bits_)[i / 8] & ~(1u << (i % 8)));
    ++nulls_;
  }
  void put_into(FeedColumn& column) {
    column.nulls = nulls_;
    if (bits_ == nullptr) return;
    column.buffers[0] = bits_->data();
    column.held.push_back(std::shared_ptr<void>(bits_));
  }

 private:
  std::size_t rows_;
  std::size_t nulls_ = 0;
  std::shared_ptr<std::vector<std::uint8_t>> bits_;
};

// A column of numbers of a type: `get` gives a row's number, or false for NULL.
template <class Get>
FeedColumn column_of_numbers(const ColumnType& type, std::size_t rows, Get&& get) {
  using Kind = ColumnType::Kind;
  const std::size_t bytes = type.kind == Kind::kBoolean ? rows / 8 + 1
                            : type.kind == Kind::kInt8  ? rows
                            : type.kind == Kind::kInt16 ? 2 * rows
                            : type.kind == Kind::kInt32 || type.kind == Kind::kFloat || type.kind == Kind::kDate
                                ? 4 * rows
                            : type.kind == Kind::kDecimal ? 16 * rows
                                                          : 8 * rows;
  const Column memory = pooled_column(bytes / sizeof(Word) + 1);
  char* const out = reinterpret_cast<char*>(memory.words.get());
  if (type.kind == Kind::kBoolean) std::memset(out, 0, bytes);
  ValidBits valid(rows);
  const auto put = [&](std::size_t i, const auto& value) { std::memcpy(out + i * sizeof value, &value, sizeof value); };
  for (std::size_t i = 0; i < rows; ++i) {
    Exact number = 0;
    if (!get(i, number)) {
      valid.unset(i);
      number = 0;
    }
    switch (type.kind) {
      case Kind::kBoolean:
        if (number != 0) out[i / 8] = static_cast<char>(out[i / 8] | 1 << (i % 8));
        break;
      case Kind::kInt8:
        put(i, static_cast<std::int8_t>(number));
        break;
      case Kind::kInt16:
        put(i, static_cast<std::int16_t>(number));
        break;
      case Kind::kInt32:
      case Kind::kDate:
        put(i, static_cast<std::int32_t>(number));
        break;
      case Kind::kFloat: {
        double wide = 0;
        const Word word = low_word(number);
        std::memcpy(&wide, &word, sizeof wide);
        put(i, static_cast<float>(wide));
        break;
      }
      case Kind::kDecimal:
        put(i, number);
        break;
      default:
        put(i, low_word(number));
    }
  }
  FeedColumn made = column_of_words(memory);
  valid.put_into(made);
  return made;
}

// Whether a type's words are its values as they lie in Arrow.
inline bool lies_in_words(const ColumnType& type) noexcept {
  return type.kind == ColumnType::Kind::kInt64 || type.kind == ColumnType::Kind::kDouble || type.is_instant();
}

// Whether NULL is among the words. It is the lowest one, so that mostly a look at the signs is enough, and that is quick.
inline bool has_null(const Word* words, std::size_t rows) noexcept {
  Word signs = 0;
  for (std::size_t i = 0; i < rows; ++i) signs |= words[i];
  return signs < 0 && std::find(words, words + rows, ValueTable::kNull) != words + rows;
}

// A column of words whose values lie so in Arrow: its memory is shared.
inline FeedColumn column_of_values(const Column& column, bool never_null) {
  FeedColumn made = column_of_words(column);
  const Word* const words = column.words.get();
  if (never_null || !has_null(words, column.size)) return made;
  ValidBits valid(column.size);
  for (std::size_t i = 0; i < column.size; ++i) {
    if (words[i] == ValueTable::kNull) valid.unset(i);
  }
  valid.put_into(made);
  return made;
}

// A column of wide values by their ids.
inline FeedColumn column_of_ids(const ColumnType& type, const Word* ids, std::size_t rows, const ValueTable& values) {
  FeedColumn made;
  if (type.kind == ColumnType::Kind::kDecimal) {
    const ValueArray<std::int64_t> found = values.decode<std::int64_t>(kNumbers, ids, rows);
    return column_of_numbers(type, rows, [&](std::size_t i, Exact& number) {
      if (ids[i] == ValueTable::kNull) return false;
      StoredDecimal stored;
      std::memcpy(stored.data(), found.bytes.data() + found.offsets[i], sizeof stored);
      if (!from_stored(stored, type.scale, number)) throw std::invalid_argument("a decimal has more digits than its type");
      return true;
    });
  }
  auto found = std::make_shared<ValueArray<std::int32_t>>(values.decode<std::int32_t>(type.value_kind(), ids, rows));
  made.buffer_count = 3;
  made.nulls = found->nulls;
  made.buffers[0] = found->nulls == 0 ? nullptr : found->valid.data();
  made.buffers[1] = found->offsets.data();
  made.buffers[2] = found->bytes.data();
  made.held.push_back(std::shared_ptr<void>(found));
  return made;
}

// A column of words of any type.
inline FeedColumn column_of_typed_words(const ColumnType& type, const Column& column, const ValueTable& values) {
  if (type.is_wide()) return column_of_ids(type, column.words.get(), column.size, values);
  if (lies_in_words(type)) return column_of_values(column, type.required);
  const Word* const words = column.words.get();
  return column_of_numbers(type, column.size, [&](std::size_t i, Exact& number) {
    number = words[i];
    return words[i] != ValueTable::kNull;
  });
}

// Where strings begin and end that are six bytes long: all columns of such names share them.
inline std::shared_ptr<const std::vector<std::int32_t>> offsets_of_names(std::size_t rows) {
  static constexpr std::size_t kMostKept = std::size_t{1} << 20;
  static std::mutex mutex;
  static auto* const kept = new std::shared_ptr<const std::vector<std::int32_t>>;  // Feeds may outlive everything else.
  const std::lock_guard lock(mutex);
  if (*kept != nullptr && (*kept)->size() > rows) return *kept;
  auto made = std::make_shared<std::vector<std::int32_t>>(rows < kMostKept / 2 ? 2 * rows + 1 : rows + 1);
  for (std::size_t i = 0; i < made->size(); ++i) (*made)[i] = static_cast<std::int32_t>(6 * i);
  if (rows < kMostKept) *kept = made;
  return made;
}

// "insert" and "delete", side by side.
inline FeedColumn column_of_names(const Column& bytes, std::size_t rows) {
  const auto offsets = offsets_of_names(rows);
  FeedColumn made;
  made.buffer_count = 3;
  made.buffers[1] = offsets->data();
  made.buffers[2] = bytes.words.get();
  made.held.push_back(std::const_pointer_cast<std::vector<std::int32_t>>(offsets));
  made.held.push_back(bytes.words);
  return made;
}

// What happened to each row, by name.
inline FeedColumn column_of_kinds(const std::vector<Happened>& happened) {
  static constexpr std::string_view kNames[] = {"insert", "delete", "update_preimage", "update_postimage"};
  struct Text {
    std::vector<std::int32_t> offsets;
    std::string bytes;
  };
  auto text = std::make_shared<Text>();
  text->offsets.reserve(happened.size() + 1);
  text->offsets.push_back(0);
  for (const Happened one : happened) {
    text->bytes += kNames[static_cast<std::size_t>(one)];
    text->offsets.push_back(static_cast<std::int32_t>(text->bytes.size()));
  }
  FeedColumn made;
  made.buffer_count = 3;
  made.buffers[1] = text->offsets.data();
  made.buffers[2] = text->bytes.data();
  made.held.push_back(std::shared_ptr<void>(text));
  return made;
}

}  // namespace everview

// Rows of a table that were read: columns of words, and those of wide values whose ids are not known yet.
#pragma once

#include <algorithm>
#include <memory>
#include <string>
#include <string_view>

#include "../arrow/feed_columns.h"
#include "types.h"

namespace everview {

// Strings, binary or long decimals that wait for their ids.
struct WaitingValues {
  ValueKind kind = 0;
  std::vector<std::int64_t> offsets = {0};
  std::string bytes;
  std::vector<std::uint8_t> valid;  // Bits.
  bool has_nulls = false;

  std::size_t size() const noexcept { return offsets.size() - 1; }
  void add(const char* from, std::size_t length) {
    mark(true);
    bytes.append(from, length);
    offsets.push_back(static_cast<std::int64_t>(bytes.size()));
  }
  void add_null() {
    mark(false);
    has_nulls = true;
    offsets.push_back(static_cast<std::int64_t>(bytes.size()));
  }
  ValueColumn column() const noexcept {
    ValueColumn made;
    made.valid = has_nulls ? valid.data() : nullptr;
    made.long_offsets = offsets.data();
    made.bytes = bytes.data();
    made.size = size();
    return made;
  }

 private:
  void mark(bool there) {
    const std::size_t at = size();
    if (at / 8 == valid.size()) valid.push_back(0);
    if (there) valid[at / 8] = static_cast<std::uint8_t>(valid[at / 8] | 1u << (at % 8));
  }
};

// The values that a column's CHECK lists, in order.
struct Domain {
  std::vector<Word> words;
  std::vector<std::string> texts;

  bool has(Word word) const noexcept { return std::binary_search(words.begin(), words.end(), word); }
  bool has(std::string_view text) const noexcept { return std::binary_search(texts.begin(), texts.end(), text); }
};

// A column as it is being read. Values are put row by row, in order; false if the column cannot hold one.
struct ReadColumn {
  ColumnType type;
  Column words;  // Of wide values: once they have their ids.
  std::unique_ptr<WaitingValues> waiting;
  const Domain* domain = nullptr;
  bool has_nulls = false;

  ReadColumn(const ColumnType& of, std::size_t rows) : type(of) {
    if (type.is_wide()) {
      waiting = std::make_unique<WaitingValues>();
      waiting->kind = type.value_kind();
      waiting->offsets.reserve(rows + 1);
    } else {
      words = pooled_column(rows);
    }
  }

  bool put_null(std::size_t row) {
    if (type.required) return false;
    has_nulls = true;
    if (waiting != nullptr) {
      waiting->add_null();
    } else {
      words.words.get()[row] = ValueTable::kNull;
    }
    return true;
  }

  // What integers, booleans, decimals, days and instants are.
  bool put_number(std::size_t row, Exact number) {
    if (!type.holds(number)) return false;
    if (waiting == nullptr) return put_word(row, low_word(number));
    const StoredDecimal stored = to_stored(number, type.scale);
    waiting->add(reinterpret_cast<const char*>(stored.data()), sizeof stored);
    return true;
  }

  bool put_double(std::size_t row, double number) {
    if (type.kind == ColumnType::Kind::kFloat) {
      const bool finite = number - number == 0.0;
      number = static_cast<double>(static_cast<float>(number));
      if (finite && number - number != 0.0) return false;
    }
    return put_word(row, word_of_double(number));
  }

  // One of the values of a column of the same type, none of them a text.
  bool put_known(std::size_t row, const ReadColumn& known, std::size_t at) {
    if (waiting != nullptr) {
      const WaitingValues& from = *known.waiting;
      if ((from.valid[at / 8] >> (at % 8) & 1) == 0) return put_null(row);
      const auto begin = static_cast<std::size_t>(from.offsets[at]), end = static_cast<std::size_t>(from.offsets[at + 1]);
      waiting->add(from.bytes.data() + begin, end - begin);
      return true;
    }
    const Word word = known.words.words.get()[at];
    return word == ValueTable::kNull ? put_null(row) : put_word(row, word);
  }

  // Valid UTF-8, or any bytes.
  bool put_text(const char* text, std::size_t size) {
    if (type.length == ColumnType::kAnyLength) {
      if (domain != nullptr && !domain->has(std::string_view(text, size))) return false;
      waiting->add(text, size);
      return true;
    }
    std::string fitted(text, size);
    if (!fit(fitted) || (domain != nullptr && !domain->has(std::string_view(fitted)))) return false;
    waiting->add(fitted.data(), fitted.size());
    return true;
  }

 private:
  bool put_word(std::size_t row, Word word) {
    if (domain != nullptr && !domain->has(word)) return false;
    words.words.get()[row] = word;
    return true;
  }

  // A text as VARCHAR and CHAR hold it: blanks beyond the length are cut off, and those that a CHAR lacks are added.
  bool fit(std::string& text) const {
    const auto most = static_cast<std::size_t>(type.length);
    std::size_t characters = 0, at = 0;
    for (; at < text.size(); ++at) {
      if ((static_cast<unsigned char>(text[at]) & 0xC0) == 0x80) continue;
      if (characters == most) break;
      ++characters;
    }
    if (text.find_first_not_of(' ', at) != std::string::npos) return false;
    text.resize(at);
    if (type.padded) text.append(most - characters, ' ');
    return true;
  }
};

class ReadRows {
 public:
  ReadRows(const ReadRows&) = delete;
  ReadRows& operator=(const ReadRows&) = delete;
  ReadRows(const std::vector<ColumnType>& types, std::size_t rows) : rows_(rows) {
    columns_.reserve(types.size());
    for (const ColumnType& type : types) columns_.emplace_back(type, rows);
  }

  std::size_t size() const noexcept { return rows_; }
  std::vector<ReadColumn>& columns() noexcept { return columns_; }

  // Of rows that say what happened to them: the change of copies of each.
  Column weights;

  // Gives the wide values their ids. Nothing else is to be done with the table of values but in the batch that follows.
  void encode(ValueTable* values) {
    for (ReadColumn& column : columns_) {
      if (column.waiting == nullptr) continue;
      if (values == nullptr) throw std::invalid_argument("there is no table of values");
      column.words = pooled_column(rows_);
      values->encode(column.waiting->kind, column.waiting->column(), column.words.words.get());
    }
  }

 private:
  std::size_t rows_;
  std::vector<ReadColumn> columns_;
};

// What a change type says, and by which sign; 0 if it is none.
inline Word sign_of(std::string_view kind) noexcept {
  if (kind == "insert" || kind == "update_postimage") return 1;
  if (kind == "delete" || kind == "update_preimage") return -1;
  return 0;
}

// The columns of a table as they are read: their types, and what their CHECKs list.
struct RowTypes {
  std::vector<ColumnType> types;
  std::vector<std::shared_ptr<const Domain>> domains;

  std::unique_ptr<ReadRows> rows(std::size_t count) const {
    auto made = std::make_unique<ReadRows>(types, count);
    for (std::size_t i = 0; i < domains.size(); ++i) made->columns()[i].domain = domains[i].get();
    return made;
  }
};

}  // namespace everview

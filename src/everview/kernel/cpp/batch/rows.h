// Rows of a table that were read: columns of words, and those of wide values whose ids are not known yet.
#pragma once

#include <memory>
#include <string>

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

struct ReadColumn {
  ColumnType type;
  Column words;  // Of wide values: once they have their ids.
  std::unique_ptr<WaitingValues> waiting;
  bool has_nulls = false;
};

class ReadRows {
 public:
  ReadRows(const ReadRows&) = delete;
  ReadRows& operator=(const ReadRows&) = delete;
  ReadRows(const std::vector<ColumnType>& types, std::size_t rows) : rows_(rows) {
    for (const ColumnType& type : types) {
      ReadColumn& column = columns_.emplace_back();
      column.type = type;
      if (type.is_wide()) {
        column.waiting = std::make_unique<WaitingValues>();
        column.waiting->kind = type.value_kind();
        column.waiting->offsets.reserve(rows + 1);
      } else {
        column.words = pooled_column(rows);
      }
    }
  }

  std::size_t size() const noexcept { return rows_; }
  std::vector<ReadColumn>& columns() noexcept { return columns_; }

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

}  // namespace everview

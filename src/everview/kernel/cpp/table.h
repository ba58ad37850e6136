// State: rows of words, found by their keys and by groups.
#pragma once

#include <string>

#include "group_index.h"
#include "ordered_index.h"

namespace everview {

// Rows of `key_width` words, unique together, followed by `value_width` words more, in one flat array, and their levels
// in another; found by hash, through group indexes and in order. Every change either happens whole or, when it throws, not at all, and leaves a record in
// the undo log. Memory that a change frees is given back by `tidy`, after the update: so undoing never needs any.
class Table {
 public:
  Table(std::uint32_t number, std::size_t key_width, std::size_t value_width,
        const std::vector<std::vector<std::uint32_t>>& indexes, const std::vector<OrderedIndex::Shape>& orders = {})
      : number_(number), key_width_(key_width), width_(key_width + value_width) {
    for (const auto& columns : indexes) indexes_.emplace_back(columns);
    for (const auto& shape : orders) orders_.emplace_back(shape, key_width);
  }

  std::size_t size() const noexcept { return levels_.size(); }
  std::size_t key_width() const noexcept { return key_width_; }
  std::size_t value_width() const noexcept { return width_ - key_width_; }
  std::size_t width() const noexcept { return width_; }
  const Word* words() const noexcept { return words_.data(); }
  const Word* words(Row row) const noexcept { return words_.data() + row * width_; }  // The key first.
  RowsView view() const noexcept { return {words_.data(), width_}; }
  std::uint8_t level(Row row) const noexcept { return levels_[row]; }
  const std::uint8_t* levels() const noexcept { return levels_.data(); }
  const std::vector<GroupIndex>& indexes() const noexcept { return indexes_; }
  const std::vector<OrderedIndex>& orders() const noexcept { return orders_; }

  std::size_t nbytes() const noexcept {
    std::size_t bytes = words_.nbytes() + levels_.nbytes() + slots_.nbytes();
    for (const GroupIndex& index : indexes_) bytes += index.nbytes();
    for (const OrderedIndex& order : orders_) bytes += order.nbytes();
    return bytes;
  }

  Row find(const Word* key) const noexcept {
    const std::size_t at = find_slot(key);
    return at == SlotTable::kNone ? kNoRow : slots_[at];
  }

  // The rows of a group on `level` or above; the key has a word for each of the index's columns.
  std::span<const Row> group(std::size_t index, const Word* key, std::uint32_t level,
                             const UndoLog& log) const noexcept {
    return indexes_[index].find(key, level, view(), log);
  }

  // All rows of a group of an ordered index, in order; the key has a word for some of the first columns.
  std::vector<Row> in_order(std::size_t number, const std::vector<Word>& key) const {
    std::vector<Row> rows;
    const OrderedIndex& order = orders_[number];
    for (Row row = order.first(key.data(), key.size(), view()); row != kNoRow;) {
      rows.push_back(row);
      row = order.next(row, false, key.size(), view());
    }
    return rows;
  }

  // A new row; kNoRow if the key is there already.
  Row insert(const Word* key, UndoLog& log) {
    if (find_slot(key) != SlotTable::kNone) return kNoRow;
    if (size() == kMaxRows) throw std::length_error("a table holds at most 2^31 rows");
    log.make_room(1);
    words_.make_room(width_);
    levels_.make_room(1);
    slots_.reserve_one();
    for (GroupIndex& index : indexes_) index.prepare(key, view(), log);
    for (OrderedIndex& order : orders_) order.prepare();
    // From here on nothing can fail.
    const Row row = static_cast<Row>(size());
    slots_.insert(tag_of(key), row);
    for (GroupIndex& index : indexes_) index.append();
    std::copy_n(key, key_width_, words_.end());
    std::fill_n(words_.end() + key_width_, value_width(), 0);
    words_.resize(words_.size() + width_);
    levels_.push_back(0);
    for (OrderedIndex& order : orders_) order.append(view());
    log.push({UndoLog::Kind::kInsert, number_});
    touched_ = true;
    return row;
  }

  void store(Row row, std::size_t column, Word word, UndoLog& log) {
    log.make_room(3);
    Word& value = words_[row * width_ + key_width_ + column];
    log.push(value);
    log.push(static_cast<Word>(column << 32 | row));
    log.push({UndoLog::Kind::kStore, number_});
    for (OrderedIndex& order : orders_) order.stored(row, key_width_ + column, value, word);
    value = word;
  }

  void set_level(Row row, std::uint8_t level, UndoLog& log) {
    if (levels_[row] == level) return;
    log.make_room((kLevels - 1) * (indexes_.size() + 2));
    while (levels_[row] < level) {
      log_positions(row, ++levels_[row], UndoLog::Kind::kRaise, log);
      for (GroupIndex& index : indexes_) index.raise(row, levels_[row]);
    }
    while (levels_[row] > level) {
      log_positions(row, levels_[row], UndoLog::Kind::kLower, log);
      for (GroupIndex& index : indexes_) index.lower(row, levels_[row]);
      --levels_[row];
    }
  }

  void remove(Row row, UndoLog& log) {
    log.make_room((kLevels - 1) * (indexes_.size() + 2) + width_ + indexes_.size() + 2);
    for (GroupIndex& index : indexes_) index.make_room_to_remove();
    // From here on nothing can fail.
    set_level(row, 0, log);
    const std::size_t logged_key = log.size();
    for (std::size_t i = 0; i < width_; ++i) log.push(words(row)[i]);
    for (const GroupIndex& index : indexes_) {
      const GroupIndex::Place place = index.place(row);
      log.push(static_cast<Word>(std::uint64_t{place.group} << 32 | place.position));
    }
    log.push(row);
    log.push({UndoLog::Kind::kRemove, number_});
    for (GroupIndex& index : indexes_) index.take_out(row, logged_key);
    for (OrderedIndex& order : orders_) order.take_out(row, view());
    slots_.erase(find_slot(words(row)));
    const Row last = static_cast<Row>(size() - 1);
    if (row != last) move_row(last, row);
    drop_last();
    touched_ = true;
  }

  // Takes back the change whose record ends the log; its header has been read.
  void undo(UndoLog::Kind kind, UndoLog& log) noexcept {
    switch (kind) {
      case UndoLog::Kind::kStore: {
        const auto at = static_cast<std::uint64_t>(log.pop());
        const auto row = static_cast<Row>(at);
        const std::size_t column = key_width_ + (at >> 32);
        Word& value = words_[row * width_ + column];
        const Word before = log.pop();
        for (OrderedIndex& order : orders_) order.stored(row, column, value, before);
        value = before;
        break;
      }
      case UndoLog::Kind::kInsert: {
        const Row row = static_cast<Row>(size() - 1);
        for (GroupIndex& index : indexes_) index.take_out(row, 0);
        for (OrderedIndex& order : orders_) order.take_out(row, view());
        slots_.erase(find_slot(words(row)));
        drop_last();
        break;
      }
      case UndoLog::Kind::kRemove:
        undo_remove(log);
        break;
      case UndoLog::Kind::kRaise:
      case UndoLog::Kind::kLower: {
        const auto word = static_cast<std::uint64_t>(log.pop());
        const Row row = static_cast<Row>(word);
        const auto level = static_cast<std::uint8_t>(word >> 32);
        const Word* const positions = log.pop(indexes_.size());
        for (std::size_t i = 0; i < indexes_.size(); ++i) {
          const Row position = static_cast<Row>(positions[i]);
          if (kind == UndoLog::Kind::kRaise) {
            indexes_[i].undo_raise(row, level, position);
          } else {
            indexes_[i].undo_lower(row, level, position);
          }
        }
        levels_[row] = kind == UndoLog::Kind::kRaise ? static_cast<std::uint8_t>(level - 1) : level;
        break;
      }
    }
  }

  void tidy() noexcept {
    if (!touched_) return;
    touched_ = false;
    for (GroupIndex& index : indexes_) index.tidy();
    for (OrderedIndex& order : orders_) order.tidy();
    words_.give_back();
    levels_.give_back();
    slots_.give_back();
  }

  // An empty table of the same shape.
  Table fresh() const {
    Table table(number_, key_width_, value_width(), {});
    for (const GroupIndex& index : indexes_) table.indexes_.emplace_back(index.columns());
    for (const OrderedIndex& order : orders_) table.orders_.emplace_back(order.shape(), key_width_);
    return table;
  }

  // Fills an empty table; false if a key is there twice. The groups follow, by `load_group` on each index.
  bool load(std::size_t rows, const Word* all_words, const std::uint8_t* levels) {
    words_.make_room(rows * width_);
    levels_.make_room(rows);
    resize(rows);
    std::copy_n(all_words, rows * width_, words_.data());
    std::copy_n(levels, rows, levels_.data());
    for (std::size_t row = 0; row < rows; ++row) {
      const Word* const key = words(static_cast<Row>(row));
      if (find_slot(key) != SlotTable::kNone) return false;
      slots_.reserve_one();
      slots_.insert(tag_of(key), static_cast<Row>(row));
    }
    for (GroupIndex& index : indexes_) index.start_loading(rows);
    for (OrderedIndex& order : orders_) order.load(rows, view());
    return true;
  }
  bool load_group(std::size_t index, std::span<const Row> rows) {
    return indexes_[index].load_group(rows, view(), levels_.data());
  }

 private:
  Tag tag_of(const Word* key) const noexcept {
    Hasher hasher;
    for (std::size_t i = 0; i < key_width_; ++i) hasher.add(key[i]);
    return hasher.tag();
  }

  std::size_t find_slot(const Word* key) const noexcept {
    return slots_.find(tag_of(key), [&](Row row) {
      const Word* const own = words(row);
      for (std::size_t i = 0; i < key_width_; ++i) {  // A call of memcmp takes longer than a few words.
        if (own[i] != key[i]) return false;
      }
      return true;
    });
  }

  void log_positions(Row row, std::uint8_t level, UndoLog::Kind kind, UndoLog& log) const noexcept {
    for (const GroupIndex& index : indexes_) log.push(index.place(row).position);
    log.push(static_cast<Word>(std::uint64_t{level} << 32 | row));
    log.push({kind, number_});
  }

  // Gives a row another number.
  void move_row(Row from, Row to) noexcept {
    slots_[slots_.find(tag_of(words(from)), [&](Row row) { return row == from; })] = to;
    for (GroupIndex& index : indexes_) index.renumber(from, to);
    for (OrderedIndex& order : orders_) order.renumber(from, to);
    std::copy_n(words(from), width_, words_.data() + to * width_);
    levels_[to] = levels_[from];
  }

  void resize(std::size_t rows) noexcept {
    words_.resize(rows * width_);
    levels_.resize(rows);
  }

  void drop_last() noexcept {
    resize(size() - 1);
    for (GroupIndex& index : indexes_) index.drop_last();
    for (OrderedIndex& order : orders_) order.drop_last();
  }

  void undo_remove(UndoLog& log) noexcept {
    const Row row = static_cast<Row>(log.pop());
    const Word* const record = log.pop(width_ + indexes_.size());
    const Row last = static_cast<Row>(size());
    resize(size() + 1);
    for (GroupIndex& index : indexes_) index.add_last();
    for (OrderedIndex& order : orders_) order.add_last();
    if (row != last) move_row(row, last);
    std::copy_n(record, width_, words_.data() + row * width_);
    levels_[row] = 0;
    slots_.insert(tag_of(record), row);
    for (std::size_t i = 0; i < indexes_.size(); ++i) {
      const auto place = static_cast<std::uint64_t>(record[width_ + i]);
      indexes_[i].put(row, {static_cast<Row>(place >> 32), static_cast<Row>(place)});
    }
    for (OrderedIndex& order : orders_) order.put(row, view());
  }

  std::uint32_t number_;
  std::size_t key_width_;
  std::size_t width_;  // With the values.
  Array<Word> words_;
  Array<std::uint8_t> levels_;
  SlotTable slots_;
  std::vector<GroupIndex> indexes_;
  std::vector<OrderedIndex> orders_;
  bool touched_ = false;  // Since `tidy`.
};

}  // namespace everview

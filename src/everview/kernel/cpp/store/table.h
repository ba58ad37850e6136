// State: rows of words, found by their keys and by groups.
#pragma once

#include <numeric>
#include <string>

#include "group_index.h"
#include "ordered_index.h"
#include "undo_log.h"

namespace everview {

// Rows of `key_width` words, unique together, followed by `value_width` words more, in one flat array, and their levels
// in another, if there are any; found by hash, through group indexes and in order. An index on all key columns is not
// stored: its groups are single rows, which the hash finds. Nor is one on no columns, whose rows on all levels are those of
// the table in its own order, unless some levels of it are read alone. Every change either happens whole or, when it
// throws, not at all, and leaves a record in the undo log. Memory that a change frees is given back by `tidy`, after the
// update: so undoing never needs any.
class Table {
 public:
  static constexpr std::uint32_t kNotStored = std::numeric_limits<std::uint32_t>::max();

  Table(std::uint32_t number, std::size_t key_width, const std::vector<std::size_t>& value_widths,
        const std::vector<std::vector<std::uint32_t>>& indexes, const std::vector<OrderedIndex::Shape>& orders = {},
        std::uint32_t levels = 1)
      : number_(number),
        key_width_(key_width),
        value_widths_(value_widths),
        rows_(key_width, key_width + std::accumulate(value_widths.begin(), value_widths.end(), std::size_t{0})),
        others_(value_width()),
        level_count_(levels),
        has_levels_(levels > 1) {
    for (const std::size_t width : value_widths) {
      units_.push_back(1);
      units_.resize(units_.size() + width - 1);
    }
    for (const auto& columns : indexes) {
      Declared& declared = declared_.emplace_back(Declared{columns, {}, kNotStored});
      if (columns.size() == key_width) {
        declared.key_order.resize(key_width);
        for (std::uint32_t i = 0; i < key_width; ++i) declared.key_order[columns[i]] = i;
      } else if (!columns.empty()) {
        store_groups(declared);
      }
    }
    for (const auto& shape : orders) orders_.emplace_back(shape, key_width);
  }

  // From now on an index on no columns may be read on some levels alone; to be called while there are no rows.
  void keep_whole(std::size_t index) {
    if (key_width_ != 0 && !declared_[index].is_stored()) store_groups(declared_[index]);
  }

  std::uint32_t number() const noexcept { return number_; }

  std::size_t size() const noexcept { return rows_.size(); }
  std::size_t key_width() const noexcept { return key_width_; }
  std::size_t value_width() const noexcept { return width() - key_width_; }  // Words of all values.
  const std::vector<std::size_t>& value_widths() const noexcept { return value_widths_; }  // Words of each.
  std::size_t width() const noexcept { return rows_.width(); }
  RowRef words(Row row) const noexcept { return rows_[row]; }  // The key first.
  RowsView view() const noexcept { return rows_.view(); }
  // Whether that word, of the values, is what a value of 1 has there in every row: 1, or 0 if it is not the lowest.
  // Weights mostly are 1: then nothing need be multiplied.
  bool all_one(std::size_t column) const noexcept { return column >= key_width_ && others_[column - key_width_] == 0; }
  std::uint32_t level_count() const noexcept { return level_count_; }
  std::uint8_t level(Row row) const noexcept { return has_levels_ ? levels_[row] : 0; }
  std::size_t index_count() const noexcept { return declared_.size(); }
  const std::vector<std::uint32_t>& columns(std::size_t index) const noexcept { return declared_[index].columns; }
  const std::vector<GroupIndex>& stored_indexes() const noexcept { return indexes_; }
  std::uint32_t stored_number(std::size_t index) const noexcept { return declared_[index].stored; }  // Or kNotStored.
  const std::vector<OrderedIndex>& orders() const noexcept { return orders_; }

  std::size_t nbytes() const noexcept {
    std::size_t bytes = rows_.nbytes() + levels_.nbytes() + slots_.nbytes() + marks_.nbytes();
    for (const GroupIndex& index : indexes_) bytes += index.nbytes();
    for (const OrderedIndex& order : orders_) bytes += order.nbytes();
    return bytes;
  }

  Row find(const Word* key) const noexcept {
    const std::size_t at = find_slot(key);
    return at == SlotTable::kNone ? kNoRow : slots_[at];
  }

  // Whether a group's rows on these levels are 0, 1, … up to the last: then they are not to be asked for.
  bool is_whole(std::size_t index, Levels levels) const noexcept {
    const bool all = levels.lowest == 0 && levels.highest + 1u == level_count_;
    return all && key_width_ != 0 && declared_[index].columns.empty();
  }

  // The rows of a group on these levels; the key has a word for each of the index's columns.
  std::span<const Row> group(std::size_t index, const Word* key, Levels levels) const noexcept {
    const Declared& declared = declared_[index];
    if (declared.is_stored()) return indexes_[declared.stored].find(key, levels, view());
    return single(find_slot(InKeyOrder{key, declared.key_order.data()}), levels);
  }

  // The same for the group that a row is in.
  std::span<const Row> group_of(std::size_t index, Row row, Levels levels) const noexcept {
    const Declared& declared = declared_[index];
    return declared.is_stored() ? indexes_[declared.stored].find_of(row, levels) : single(find_slot(rows_[row]), levels);
  }
  std::size_t group_size_of(std::size_t index, Row row, Levels levels) const noexcept {
    const Declared& declared = declared_[index];
    if (declared.is_stored()) return indexes_[declared.stored].find_of(row, levels).size();
    return levels.contain(level(row)) ? 1 : 0;
  }

  // The same for up to GroupIndex::kMany keys, one after the other in `keys`, whose lookups go side by side.
  void groups(std::size_t index, const Word* keys, std::size_t count, Levels levels,
              std::span<const Row>* found) const noexcept {
    const Declared& declared = declared_[index];
    if (declared.is_stored()) return indexes_[declared.stored].find_many(keys, count, levels, view(), found);
    for (std::size_t i = 0; i < count; ++i) {
      slots_.prefetch(tag_of(InKeyOrder{keys + i * key_width_, declared.key_order.data()}));
    }
    for (std::size_t i = 0; i < count; ++i) {
      found[i] = single(find_slot(InKeyOrder{keys + i * key_width_, declared.key_order.data()}), levels);
    }
  }

  // Hints for lookups to come: by the tag of a key, and then what its slot leads to.
  void prefetch_slot(Tag tag) const noexcept { slots_.prefetch(tag); }
  void prefetch(Row row) const noexcept { __builtin_prefetch(rows_[row].cells()); }
  Row prefetch_row(Tag tag) const noexcept {
    const std::size_t at = slots_.find(tag, [](Row) { return true; });
    if (at == SlotTable::kNone) return kNoRow;
    const Row row = slots_[at];
    __builtin_prefetch(rows_[row].cells());
    if (has_levels_) __builtin_prefetch(levels_.data() + row);
    for (const GroupIndex& index : indexes_) index.prefetch_place(row);
    return row;
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
    const Place place = locate(key);
    return place.row == kNoRow ? insert(place, key, {}, log) : kNoRow;
  }

  // Where a key is, or would be.
  struct Place {
    Tag tag;
    Row row;  // Or kNoRow.
  };
  Place locate(const Word* key) const noexcept {
    const Tag tag = tag_of(key);
    const std::size_t at = key_width_ == 1 ? find_slot_of_word(tag, *key) : find_slot(tag, key);
    return {tag, at == SlotTable::kNone ? kNoRow : slots_[at]};
  }

  // A new row where no row is, with these for its first values and 0 for the others.
  Row insert(Place place, const Word* key, std::span<const Word> values, UndoLog& log) {
    if (size() == kMaxRows) throw std::length_error("a table holds at most 2^31 rows");
    log.make_room(1);
    rows_.make_fit(0, key, key_width_);
    rows_.make_fit(key_width_, values.data(), values.size());
    for (std::size_t c = key_width_ + values.size(); c < width(); ++c) rows_.make_fit(c, 0);
    rows_.make_room(1);
    if (has_levels_) levels_.make_room(1);
    slots_.reserve_one();
    for (GroupIndex& index : indexes_) index.prepare(key, view());
    for (OrderedIndex& order : orders_) order.prepare();
    const bool is_logged = makes_room_to_log(size() + 1, key_width_, log);
    // From here on nothing can fail.
    const Row row = static_cast<Row>(size());
    slots_.insert(place.tag, row);
    for (GroupIndex& index : indexes_) index.append();
    resize(size() + 1);
    for (std::size_t i = 0; i < key_width_; ++i) rows_.write(row, i, key[i]);
    for (std::size_t i = 0; i < value_width(); ++i) rows_.write(row, key_width_ + i, i < values.size() ? values[i] : 0);
    count_others(row, 1);
    set_level_byte(row, 0);
    for (OrderedIndex& order : orders_) order.append(view());
    log.push({UndoLog::Kind::kInsert, number_});
    if (is_logged) {
      log.batch->push(BatchLog::Kind::kCame, number_, 0, key, key_width_);
      marks_.set(row);
    }
    touched_ = true;
    return row;
  }

  void store(Row row, std::size_t column, Word word, UndoLog& log) {
    store(row, column, rows_[row][key_width_ + column], word, log);
  }
  // The same where it is known what the word was.
  void store(Row row, std::size_t column, Word before, Word word, UndoLog& log) {
    log.make_room(3);
    const std::size_t bytes = rows_.nbytes();
    rows_.make_fit(key_width_ + column, word);
    if (rows_.nbytes() != bytes) log.rearranged = true;
    keep_for_batch(row, log);
    log.push(before);
    log.push(static_cast<Word>(column << 32 | row));
    log.push({UndoLog::Kind::kStore, number_});
    write_value(row, key_width_ + column, before, word);
  }

  void set_level(Row row, std::uint8_t level, UndoLog& log) {
    if (this->level(row) == level) return;
    log.make_room((level_count_ - 1) * (indexes_.size() + 2));
    keep_for_batch(row, log);
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
    log.make_room((level_count_ - 1) * (indexes_.size() + 2) + width() + indexes_.size() + 2);
    for (GroupIndex& index : indexes_) index.make_room_to_remove();
    const bool is_logged = makes_room_to_log(size(), width(), log);
    // From here on nothing can fail.
    if (is_logged) {
      log.batch->push(BatchLog::Kind::kWent, number_, level(row), words(row), width());
      marks_.set(row);  // The log knows what it was.
    }
    set_level(row, 0, log);
    for (std::size_t i = 0; i < width(); ++i) log.push(words(row)[i]);
    for (const GroupIndex& index : indexes_) {
      const GroupIndex::Place place = index.place(row);
      log.push(static_cast<Word>(std::uint64_t{place.group} << 32 | place.position));
    }
    log.push(row);
    log.push({UndoLog::Kind::kRemove, number_});
    for (GroupIndex& index : indexes_) index.take_out(row, view());
    for (OrderedIndex& order : orders_) order.take_out(row, view());
    slots_.erase(find_slot(words(row)));
    count_others(row, -1);
    const Row last = static_cast<Row>(size() - 1);
    if (row != last) move_row(last, row);
    if (is_logged) marks_.move(last, row);
    drop_last();
    touched_ = true;
  }

  // Takes a change of the batch back, the last one first; what it needs memory for may fail, and then nothing has changed.
  void take_back(const BatchLog::Record& record, UndoLog& log) {
    const Word* const words = record.words.data();
    const Place place = locate(words);
    Row row = place.row;
    if ((row == kNoRow) != (record.kind == BatchLog::Kind::kWent)) throw std::logic_error("the log is of other rows");
    switch (record.kind) {
      case BatchLog::Kind::kCame:
        remove(row, log);
        return;
      case BatchLog::Kind::kWent:
        row = insert(place, words, {words + key_width_, value_width()}, log);
        break;
      case BatchLog::Kind::kWas:
        for (std::size_t i = 0; i < value_width(); ++i) {
          if (rows_[row][key_width_ + i] != words[key_width_ + i]) store(row, i, words[key_width_ + i], log);
        }
        break;
    }
    if (level(row) != record.level) set_level(row, record.level, log);
  }

  // The batch is over: the log is written anew in the next one.
  void forget_marks() noexcept { marks_.clear(size()); }

  // Takes back the change whose record ends the log; its header has been read.
  void undo(UndoLog::Kind kind, UndoLog& log) noexcept {
    switch (kind) {
      case UndoLog::Kind::kStore: {
        const auto at = static_cast<std::uint64_t>(log.pop());
        const auto row = static_cast<Row>(at);
        const std::size_t column = key_width_ + (at >> 32);
        write_value(row, column, rows_[row][column], log.pop());
        break;
      }
      case UndoLog::Kind::kInsert: {
        const Row row = static_cast<Row>(size() - 1);
        for (GroupIndex& index : indexes_) index.undo_append(row);
        for (OrderedIndex& order : orders_) order.take_out(row, view());
        slots_.erase(find_slot(words(row)));
        count_others(row, -1);
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

  bool is_touched() const noexcept { return touched_; }  // Rows have come or gone since `tidy`.
  void tidy() noexcept {
    if (!touched_) return;
    touched_ = false;
    for (GroupIndex& index : indexes_) index.tidy();
    for (OrderedIndex& order : orders_) order.tidy();
    rows_.give_back();
    levels_.give_back();
    slots_.give_back();
  }

  // Between batches: gives back the last bytes of a table without rows.
  void release_if_empty() noexcept {
    if (size() != 0) return;
    rows_.release();
    levels_.release();
    slots_.release();
    for (GroupIndex& index : indexes_) index.release();
    for (OrderedIndex& order : orders_) order.release();
  }

  // An empty table of the same shape.
  Table fresh() const {
    std::vector<OrderedIndex::Shape> shapes;
    for (const OrderedIndex& order : orders_) shapes.push_back(order.shape());
    Table table(number_, key_width_, value_widths_, {}, shapes, level_count_);
    table.declared_ = declared_;
    for (const GroupIndex& index : indexes_) table.indexes_.emplace_back(index.columns(), level_count_);
    return table;
  }

  // Fills a new table, some rows at a time; false if a key is there twice, or a level is none of this table's. When all are
  // there, `finish_rows` makes the indexes; the groups of those that are stored follow, by `load_group` on each.
  bool load_rows(std::size_t count, const Word* all_words, const std::uint8_t* levels) {
    const std::size_t before = size();
    rows_.make_all_fit(all_words, count);
    rows_.make_room(count);
    if (has_levels_) levels_.make_room(count);
    resize(before + count);
    for (std::size_t i = 0; i < count; ++i) {
      const Row row = static_cast<Row>(before + i);
      const Word* const words = all_words + i * width();
      if (levels[i] >= level_count_) return false;
      rows_.write(row, words);
      count_others(row, 1);
      set_level_byte(row, levels[i]);
      const Tag tag = tag_of(words);
      if (find_slot(tag, words) != SlotTable::kNone) return false;
      slots_.reserve_one();
      slots_.insert(tag, row);
    }
    return true;
  }
  void finish_rows() {
    for (GroupIndex& index : indexes_) index.start_loading(size());
    for (OrderedIndex& order : orders_) order.load(size(), view());
  }
  bool load_group(std::size_t index, std::span<const Row> rows) {
    return indexes_[index].load_group(rows, view(), [this](Row row) { return level(row); });
  }

 private:
  // An index as the program has it.
  struct Declared {
    std::vector<std::uint32_t> columns;
    std::vector<std::uint32_t> key_order;  // On all key columns: which word of its key is the table's word i.
    std::uint32_t stored;                  // Its number among those that are stored.

    bool is_stored() const noexcept { return stored != kNotStored; }
  };

  void store_groups(Declared& declared) {
    declared.stored = static_cast<std::uint32_t>(indexes_.size());
    indexes_.emplace_back(declared.columns, level_count_);
  }

  // The key of an index on all key columns, word by word as the table has it.
  struct InKeyOrder {
    const Word* words;
    const std::uint32_t* order;

    Word operator[](std::size_t i) const noexcept { return words[order[i]]; }
  };

  // A group of an index that is not stored: the row in a slot, if there is one on these levels.
  std::span<const Row> single(std::size_t slot, Levels levels) const noexcept {
    if (slot == SlotTable::kNone || !levels.contain(level(slots_[slot]))) return {};
    return {&slots_[slot], 1};
  }

  // A key is anything that has a word at 0, 1, …: words, a row, the key of an index.
  template <class Key>
  Tag tag_of(const Key& key) const noexcept {
    Hasher hasher;
    for (std::size_t i = 0; i < key_width_; ++i) hasher.add(key[i]);
    return hasher.tag();
  }

  template <class Key>
  std::size_t find_slot(const Key& key) const noexcept {
    return find_slot(tag_of(key), key);
  }
  template <class Key>
  std::size_t find_slot(Tag tag, const Key& key) const noexcept {
    return slots_.find(tag, [&, rows = view()](Row row) {
      const RowRef own = rows[row];
      for (std::size_t i = 0; i < key_width_; ++i) {  // A call of memcmp takes longer than a few words.
        if (own[i] != key[i]) return false;
      }
      return true;
    });
  }

  // The same for a key of one word, which most keys are: nothing but cells is compared while rows are narrow.
  std::size_t find_slot_of_word(Tag tag, Word word) const noexcept {
    const RowsView rows = view();
    if (rows.wide) return slots_.find(tag, [&](Row row) { return rows[row][0] == word; });
    if (!is_narrow(word)) return SlotTable::kNone;
    return slots_.find(tag, [&, cell = cell_of(word)](Row row) { return rows.cells[row * rows.stride] == cell; });
  }

  // Room in the batch's log for one row of so many words, where the table has so many rows; false if there is no log.
  bool makes_room_to_log(std::size_t rows, std::size_t words, UndoLog& log) {
    if (log.batch == nullptr || !log.batch->make_room(words)) return false;
    marks_.make_room(rows);
    return true;
  }

  // To be called before a row's values or level change: in a batch, what it was is kept the first time.
  void keep_for_batch(Row row, UndoLog& log) {
    if (log.batch == nullptr || marks_.has(row) || !makes_room_to_log(size(), width(), log)) return;
    log.batch->push(BatchLog::Kind::kWas, number_, level(row), words(row), width());
    marks_.set(row);
  }

  void log_positions(Row row, std::uint8_t level, UndoLog::Kind kind, UndoLog& log) const noexcept {
    for (const GroupIndex& index : indexes_) log.push(index.place(row).position);
    log.push(static_cast<Word>(std::uint64_t{level} << 32 | row));
    log.push({kind, number_});
  }

  void write_value(Row row, std::size_t column, Word before, Word word) noexcept {
    for (OrderedIndex& order : orders_) order.stored(row, column, before, word);
    rows_.write(row, column, word);
    const Word unit = units_[column - key_width_];
    others_[column - key_width_] += (word != unit) - (before != unit);
  }

  // A row has come, or goes.
  void count_others(Row row, std::ptrdiff_t change) noexcept {
    for (std::size_t i = 0; i < others_.size(); ++i) {
      if (rows_[row][key_width_ + i] != units_[i]) others_[i] += change;
    }
  }

  // Gives a row another number.
  void move_row(Row from, Row to) noexcept {
    slots_[slots_.find(tag_of(words(from)), [&](Row row) { return row == from; })] = to;
    for (GroupIndex& index : indexes_) index.renumber(from, to);
    for (OrderedIndex& order : orders_) order.renumber(from, to);
    rows_.copy(from, to);
    set_level_byte(to, level(from));
  }

  void resize(std::size_t rows) noexcept {
    rows_.resize(rows);
    if (has_levels_) levels_.resize(rows);
  }

  void set_level_byte(Row row, std::uint8_t level) noexcept {
    if (has_levels_) levels_[row] = level;
  }

  void drop_last() noexcept {
    resize(size() - 1);
    for (GroupIndex& index : indexes_) index.drop_last();
    for (OrderedIndex& order : orders_) order.drop_last();
  }

  void undo_remove(UndoLog& log) noexcept {
    const Row row = static_cast<Row>(log.pop());
    const Word* const record = log.pop(width() + indexes_.size());
    const Row last = static_cast<Row>(size());
    resize(size() + 1);
    for (GroupIndex& index : indexes_) index.add_last();
    for (OrderedIndex& order : orders_) order.add_last();
    if (row != last) move_row(row, last);
    rows_.write(row, record);
    count_others(row, 1);
    set_level_byte(row, 0);
    slots_.insert(tag_of(record), row);
    for (std::size_t i = 0; i < indexes_.size(); ++i) {
      const auto place = static_cast<std::uint64_t>(record[width() + i]);
      indexes_[i].put(row, {static_cast<Row>(place >> 32), static_cast<Row>(place)});
    }
    for (OrderedIndex& order : orders_) order.put(row, view());
  }

  std::uint32_t number_;
  std::size_t key_width_;
  std::vector<std::size_t> value_widths_;
  RowStore rows_;
  std::vector<Word> units_;             // Of each value word: what it is where the value is 1,
  std::vector<std::ptrdiff_t> others_;  // and the rows where it is not that.
  std::uint32_t level_count_;
  bool has_levels_;  // More than one: only then are they stored.
  Array<std::uint8_t> levels_;
  SlotTable slots_;
  std::vector<Declared> declared_;
  std::vector<GroupIndex> indexes_;  // Those that are stored.
  std::vector<OrderedIndex> orders_;
  RowMarks marks_;
  bool touched_ = false;  // Since `tidy`.
};

}  // namespace everview

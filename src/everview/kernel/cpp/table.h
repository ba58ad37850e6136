// A bag of fixed-width rows.
#pragma once

#include <string>

#include "group_index.h"
#include "slot_table.h"
#include "words.h"

namespace everview {

// Thrown when more copies of a row are removed than are there.
struct OverDelete : std::runtime_error {
  using std::runtime_error::runtime_error;
};

// Rows of `width` words in one flat array, each distinct row once and with its multiplicity (at least 1), found by hash
// and through any number of group indexes. Every change either happens whole or, when it throws, not at all.
class Table {
 public:
  static constexpr std::size_t kMaxWidth = 65535;
  __extension__ using Total = unsigned __int128;

  explicit Table(std::size_t width) : width_(width) {
    if (width > kMaxWidth) throw std::invalid_argument("a row has at most " + std::to_string(kMaxWidth) + " words");
  }

  std::size_t width() const noexcept { return width_; }
  std::size_t size() const noexcept { return counts_.size(); }  // Distinct rows.
  Total total() const noexcept { return total_; }               // Rows with their copies.
  const Word* words(Row row) const noexcept { return view()[row]; }
  std::int64_t count(Row row) const noexcept { return counts_[row]; }

  Row find(const Word* words) const noexcept {
    const std::size_t at = find_slot(words);
    return at == Slots::kNone ? kNoRow : slots_[at].row;
  }

  // Adds `change` copies (removes, if negative) and returns how many there are then.
  std::int64_t add(const Word* words, std::int64_t change) {
    const std::size_t at = find_slot(words);
    const std::int64_t before = at == Slots::kNone ? 0 : counts_[slots_[at].row];
    std::int64_t after = 0;
    if (__builtin_add_overflow(before, change, &after)) {
      throw std::overflow_error("a row's multiplicity would exceed 2^63 - 1: " + std::to_string(before) +
                                " copies are there and " + std::to_string(change) + " more were to come");
    }
    if (after < 0) throw OverDelete(describe_over_delete(words, before, change));
    if (change == 0) return before;
    if (before == 0) {
      insert(words, after);
    } else if (after == 0) {
      swap_remove(at);
    } else {
      counts_[slots_[at].row] = after;
    }
    total_ += static_cast<Total>(change);  // Modulo 2^128, so that this also subtracts.
    return after;
  }

  // Indexes the rows, present and future, by these columns. Asked again for the same columns, gives the same index.
  std::size_t add_index(std::vector<std::uint32_t> columns) {
    for (std::size_t i = 0; i < indexes_.size(); ++i) {
      if (indexes_[i].columns() == columns) return i;
    }
    std::vector<bool> seen(width_);
    for (const std::uint32_t column : columns) {
      if (column >= width_) {
        throw std::out_of_range("no column " + std::to_string(column) + " in rows of " + std::to_string(width_) +
                                " words");
      }
      if (seen[column]) throw std::invalid_argument("column " + std::to_string(column) + " is given twice");
      seen[column] = true;
    }
    GroupIndex index(std::move(columns));
    for (Row row = 0; row < size(); ++row) {
      index.prepare(words(row), view());
      index.append();
    }
    indexes_.push_back(std::move(index));
    return indexes_.size() - 1;
  }

  std::size_t index_count() const noexcept { return indexes_.size(); }
  const GroupIndex& index(std::size_t index) const noexcept { return indexes_[index]; }

  // The rows of one group; the key has a word for each of the index's columns. Valid until the table changes.
  std::span<const Row> group(std::size_t index, const Word* key) const noexcept {
    return indexes_[index].find(key, view());
  }

  // Removes all rows and keeps the indexes.
  void clear() noexcept {
    std::vector<Word>().swap(words_);
    std::vector<std::int64_t>().swap(counts_);
    slots_.clear();
    for (GroupIndex& index : indexes_) index.clear();
    total_ = 0;
  }

  std::size_t nbytes() const noexcept {
    std::size_t bytes = sizeof(Table) + bytes_of(words_) + bytes_of(counts_) + slots_.nbytes() + bytes_of(indexes_);
    for (const GroupIndex& index : indexes_) bytes += index.nbytes();
    return bytes;
  }

 private:
  struct Slot {
    Tag tag = 0;
    Row row = kNoRow;

    bool empty() const noexcept { return row == kNoRow; }
  };
  using Slots = SlotTable<Slot>;

  RowsView view() const noexcept { return {words_.data(), width_}; }

  Tag tag_of(const Word* words) const noexcept {
    Hasher hasher;
    for (std::size_t i = 0; i < width_; ++i) hasher.add(words[i]);
    return hasher.tag();
  }

  std::size_t find_slot(const Word* row) const noexcept {
    return slots_.find(tag_of(row), [&](const Slot& slot) { return std::equal(row, row + width_, words(slot.row)); });
  }

  void insert(const Word* row, std::int64_t count) {
    if (size() == kMaxRows) throw std::length_error("a table holds at most 2^31 distinct rows");
    make_room(words_, width_);
    make_room(counts_, 1);
    slots_.reserve_one();
    for (GroupIndex& index : indexes_) index.prepare(row, view());
    // From here on nothing can fail.
    slots_.insert({tag_of(row), static_cast<Row>(size())});
    for (GroupIndex& index : indexes_) index.append();
    words_.insert(words_.end(), row, row + width_);
    counts_.push_back(count);
  }

  void swap_remove(std::size_t at) noexcept {
    const Row row = slots_[at].row;
    const Row last = static_cast<Row>(size() - 1);
    for (GroupIndex& index : indexes_) index.swap_remove(row, view());
    if (row != last) {
      slots_[slots_.find(tag_of(words(last)), [&](const Slot& slot) { return slot.row == last; })].row = row;
      std::copy_n(words(last), width_, words_.data() + row * width_);
      counts_[row] = counts_[last];
    }
    slots_.erase(at);
    words_.resize(words_.size() - width_);
    counts_.pop_back();
    slots_.give_back();
    give_back(words_);
    give_back(counts_);
  }

  std::string describe_over_delete(const Word* words, std::int64_t before, std::int64_t change) const {
    std::string row = "(";
    for (std::size_t i = 0; i < width_; ++i) row += (i == 0 ? "" : ", ") + std::to_string(words[i]);
    row += width_ == 1 ? ",)" : ")";
    const auto copies = std::uint64_t{0} - static_cast<std::uint64_t>(change);
    return "cannot remove " + std::to_string(copies) + (copies == 1 ? " copy" : " copies") + " of row " + row + ": " +
           (before == 0 ? "it is not there" : "only " + std::to_string(before) + " there");
  }

  std::size_t width_;
  std::vector<Word> words_;
  std::vector<std::int64_t> counts_;
  Slots slots_;
  std::vector<GroupIndex> indexes_;
  Total total_ = 0;
};

}  // namespace everview

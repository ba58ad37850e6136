// An index from the values of some columns to the rows that have them.
#pragma once

#include <array>
#include <bit>
#include <span>
#include <stdexcept>
#include <utility>

#include "slot_table.h"
#include "words.h"

namespace everview {

// Each group's row numbers are contiguous, so that listing a group is a scan. A group of one keeps its row in its slot;
// larger groups own a block of `arena_`, of 2, 4, 8, … entries. `positions_` says where in its group each row stands,
// so adding, removing and renumbering a row take O(1) amortised, whatever the sizes of the groups. Keys are not stored:
// a group's key is read off its first row.
class GroupIndex {
 public:
  explicit GroupIndex(std::vector<std::uint32_t> columns) : columns_(std::move(columns)) { free_.fill(kNoBlock); }

  const std::vector<std::uint32_t>& columns() const noexcept { return columns_; }
  std::size_t size() const noexcept { return groups_.size(); }

  std::size_t nbytes() const noexcept {
    return bytes_of(columns_) + groups_.nbytes() + bytes_of(positions_) + bytes_of(arena_);
  }

  // The rows whose indexed columns equal `key`, in no particular order; valid until the table changes.
  std::span<const Row> find(const Word* key, RowsView rows) const noexcept {
    Hasher hasher;
    for (std::size_t i = 0; i < columns_.size(); ++i) hasher.add(key[i]);
    const std::size_t at = groups_.find(hasher.tag(), [&](const Group& group) {
      const Word* row = rows[*members(group)];
      for (std::size_t i = 0; i < columns_.size(); ++i) {
        if (row[columns_[i]] != key[i]) return false;
      }
      return true;
    });
    if (at == Groups::kNone) return {};
    return {members(groups_[at]), groups_[at].size};
  }

  // Adding takes two steps, so that a table with several indexes can add to all of them or to none: `prepare` gets the
  // memory, may throw, and changes nothing that can be seen; `append` gives the row prepared for the next row number.
  void prepare(const Word* row, RowsView rows) {
    make_room(positions_, 1);
    prepared_tag_ = tag_of(row);
    prepared_at_ = groups_.find(prepared_tag_, [&](const Group& group) {
      const Word* other = rows[*members(group)];
      return std::all_of(columns_.begin(), columns_.end(), [&](std::uint32_t c) { return row[c] == other[c]; });
    });
    if (prepared_at_ == Groups::kNone) {
      groups_.reserve_one();
    } else {
      Group& group = groups_[prepared_at_];
      const Row capacity = std::max<Row>(group.capacity, 1);
      if (group.size == capacity) move_to_block(group, 2 * capacity);
    }
  }

  void append() noexcept {
    const Row row = static_cast<Row>(positions_.size());
    if (prepared_at_ == Groups::kNone) {
      groups_.insert({prepared_tag_, 1, row, 0});
      positions_.push_back(0);
    } else {
      Group& group = groups_[prepared_at_];
      arena_[group.first + group.size] = row;
      positions_.push_back(group.size++);
    }
  }

  // Takes `row` out, and gives its number to the last row. To be called while both rows' words are still in place.
  void swap_remove(Row row, RowsView rows) noexcept {
    const Row last = static_cast<Row>(positions_.size() - 1);
    take_out(row, rows[row]);
    if (row != last) {
      Group& group = groups_[group_of(last, rows[last])];
      members(group)[positions_[last]] = row;
      positions_[row] = positions_[last];
    }
    positions_.pop_back();
    give_back_memory();
  }

  void clear() noexcept {
    groups_.clear();
    std::vector<Row>().swap(positions_);
    std::vector<Row>().swap(arena_);
    free_.fill(kNoBlock);
    free_entries_ = 0;
  }

 private:
  struct Group {
    Tag tag = 0;
    Row size = 0;
    Row first = 0;     // The row itself while capacity is 0, else where the block starts.
    Row capacity = 0;  // Of the block.

    bool empty() const noexcept { return size == 0; }
  };
  using Groups = SlotTable<Group>;

  static constexpr Row kNoBlock = std::numeric_limits<Row>::max();

  const Row* members(const Group& group) const noexcept {
    return group.capacity == 0 ? &group.first : arena_.data() + group.first;
  }
  Row* members(Group& group) noexcept { return group.capacity == 0 ? &group.first : arena_.data() + group.first; }

  Tag tag_of(const Word* row) const noexcept {
    Hasher hasher;
    for (const std::uint32_t column : columns_) hasher.add(row[column]);
    return hasher.tag();
  }

  // The group a row is in. No keys need comparing: only one group has this row at this position.
  std::size_t group_of(Row row, const Word* words) const noexcept {
    const Row position = positions_[row];
    return groups_.find(tag_of(words), [&](const Group& group) {
      return position < group.size && members(group)[position] == row;
    });
  }

  void take_out(Row row, const Word* words) noexcept {
    const std::size_t at = group_of(row, words);
    Group& group = groups_[at];
    Row* const numbers = members(group);
    const Row moved = numbers[--group.size];
    numbers[positions_[row]] = moved;
    positions_[moved] = positions_[row];
    if (group.size == 0) {
      if (group.capacity != 0) release(group.first, group.capacity);
      groups_.erase(at);
    } else if (group.size == 1 && group.capacity != 0) {
      const Row only = numbers[0];
      release(group.first, group.capacity);
      group.first = only;
      group.capacity = 0;
    } else if (group.size <= group.capacity / 4) {
      try {
        move_to_block(group, group.capacity / 2);
      } catch (const std::exception&) {  // No memory to move into: the group keeps its larger block.
      }
    }
  }

  void move_to_block(Group& group, Row capacity) {
    const Row block = allocate(capacity);
    std::copy_n(members(group), group.size, arena_.data() + block);
    if (group.capacity != 0) release(group.first, group.capacity);
    group.first = block;
    group.capacity = capacity;
  }

  // Free blocks of 2^k entries form a list from `free_[k]`, linked through their first entries.
  Row allocate(Row capacity) {
    Row& head = free_[static_cast<std::size_t>(std::countr_zero(capacity))];
    if (head != kNoBlock) {
      free_entries_ -= capacity;
      return std::exchange(head, arena_[head]);
    }
    if (arena_.size() + capacity > kNoBlock) throw std::length_error("a table's index has grown beyond 2^32 entries");
    make_room(arena_, capacity);
    const Row block = static_cast<Row>(arena_.size());
    arena_.resize(arena_.size() + capacity);
    return block;
  }

  void release(Row block, Row capacity) noexcept {
    Row& head = free_[static_cast<std::size_t>(std::countr_zero(capacity))];
    arena_[block] = std::exchange(head, block);
    free_entries_ += capacity;
  }

  // Compacting the arena reads every group and copies every live block. It waits until that many entries are free, and
  // freeing them took as many updates.
  void give_back_memory() noexcept {
    groups_.give_back();
    give_back(positions_);
    const std::size_t live = arena_.size() - free_entries_;
    if (free_entries_ <= live + groups_.capacity() + 64) return;
    try {
      std::vector<Row> fresh;
      fresh.reserve(live);
      for (Group& group : groups_) {
        if (group.capacity == 0) continue;
        const Row block = static_cast<Row>(fresh.size());
        fresh.insert(fresh.end(), arena_.data() + group.first, arena_.data() + group.first + group.capacity);
        group.first = block;
      }
      arena_.swap(fresh);
      free_.fill(kNoBlock);
      free_entries_ = 0;
    } catch (const std::bad_alloc&) {
    }
  }

  std::vector<std::uint32_t> columns_;
  Groups groups_;
  std::vector<Row> positions_;
  std::vector<Row> arena_;
  std::array<Row, 32> free_;
  std::size_t free_entries_ = 0;
  Tag prepared_tag_ = 0;
  std::size_t prepared_at_ = Groups::kNone;
};

}  // namespace everview

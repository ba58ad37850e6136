// An index from the values of some key columns to the rows that have them, sorted by level.
#pragma once

#include <array>
#include <span>
#include <stdexcept>
#include <vector>

#include "group_headers.h"
#include "row_store.h"
#include "slot_table.h"

namespace everview {

// Each group's row numbers are contiguous and sorted by level, the highest first: the rows on a range of levels are a
// slice, and listing them is a scan. A group of one keeps its row in its header; larger groups own a block of `arena_`.
// A header has a border for each level that the table has, and no more: without levels it takes 16 bytes.
// `places_` says which group each row is in and where, so adding, removing, renumbering a row and moving it between
// levels take O(1) amortised, whatever the sizes of the groups, and only adding needs a hash.
//
// Keys are not stored: a group's key is read off its first row. Within an update, groups keep the memory they have, so
// that taking the update back needs none; the keys of groups left empty are in `kept_` until `tidy`.
class GroupIndex {
 public:
  struct Place {
    Row group;
    Row position;
  };

  GroupIndex(std::vector<std::uint32_t> columns, std::uint32_t levels)
      : columns_(std::move(columns)), groups_(levels) {
    free_.fill(kNoBlock);
  }

  const std::vector<std::uint32_t>& columns() const noexcept { return columns_; }

  std::size_t nbytes() const noexcept {
    return slots_.nbytes() + groups_.nbytes() + places_.nbytes() + arena_.nbytes() + loose_.nbytes() + kept_.nbytes();
  }

  // The rows on these levels whose indexed columns equal `key`; valid until the table's rows or levels change.
  std::span<const Row> find(const Word* key, Levels levels, RowsView rows) const noexcept {
    Hasher hasher;
    for (std::size_t i = 0; i < columns_.size(); ++i) hasher.add(key[i]);
    const auto word = [key](std::size_t i) { return key[i]; };
    const std::size_t at = slots_.find(hasher.tag(), [&](Row number) { return has_key(groups_[number], word, rows); });
    if (at == SlotTable::kNone) return {};
    return slice(groups_[slots_[at]], levels);
  }

  // The same for the group that a row is in, which takes no hash.
  std::span<const Row> find_of(Row row, Levels levels) const noexcept {
    return slice(groups_[places_[row].group], levels);
  }

  // The same for several keys, one after the other in `keys`. The lookups go side by side, each step fetching what the
  // next one reads: so the memory's latency is paid once, not `count` times.
  static constexpr std::size_t kMany = 16;
  static constexpr Row kFew = 8;  // Rows of a group that are fetched ahead.
  void find_many(const Word* keys, std::size_t count, Levels levels, RowsView rows,
                 std::span<const Row>* found) const noexcept {
    const std::size_t width = columns_.size();
    Tag tags[kMany];
    Row numbers[kMany];
    for (std::size_t i = 0; i < count; ++i) {
      Hasher hasher;
      for (std::size_t c = 0; c < width; ++c) hasher.add(keys[i * width + c]);
      tags[i] = hasher.tag();
      slots_.prefetch(tags[i]);
    }
    for (std::size_t i = 0; i < count; ++i) {  // The first of its tag, which is nearly always the one.
      const std::size_t at = slots_.find(tags[i], [](Row) { return true; });
      numbers[i] = at == SlotTable::kNone ? kNoRow : slots_[at];
      if (numbers[i] != kNoRow) groups_.prefetch(numbers[i]);
    }
    for (std::size_t i = 0; i < count; ++i) {
      if (numbers[i] != kNoRow && groups_[numbers[i]].capacity() != 0) __builtin_prefetch(members(groups_[numbers[i]]));
    }
    for (std::size_t i = 0; i < count; ++i) {
      found[i] = numbers[i] == kNoRow ? std::span<const Row>() : slice(groups_[numbers[i]], levels);
      for (const Row row : found[i].first(std::min<std::size_t>(found[i].size(), kFew))) {
        __builtin_prefetch(rows[row].cells());
      }
    }
    for (std::size_t i = 0; i < count; ++i) {
      if (numbers[i] == kNoRow) continue;
      const Word* const key = keys + i * width;
      const ConstGroup group = groups_[numbers[i]];
      if (group.empty() || !has_key(group, [key](std::size_t c) { return key[c]; }, rows)) {
        found[i] = find(key, levels, rows);
      }
    }
  }

  // Hints for lookups to come, each for what the one before has fetched. Numbers may be out of date.
  void prefetch_slot(Tag tag) const noexcept { slots_.prefetch(tag); }
  Row prefetch_group(Tag tag) const noexcept {
    const std::size_t at = slots_.find(tag, [](Row) { return true; });
    if (at == SlotTable::kNone) return kNoRow;
    groups_.prefetch(slots_[at]);
    return slots_[at];
  }
  void prefetch_members(Row number) const noexcept {
    if (number < groups_.size()) __builtin_prefetch(members(groups_[number]));
  }
  void prefetch_rows(Row number, RowsView rows) const noexcept {
    if (number >= groups_.size() || groups_[number].is_free()) return;
    const ConstGroup group = groups_[number];
    const Row few = std::min<Row>(group.size(), kFew);
    for (Row i = 0; i < few; ++i) __builtin_prefetch(rows[members(group)[i]].cells());
  }
  void prefetch_place(Row row) const noexcept { __builtin_prefetch(places_.data() + row); }

  // Adding takes two steps, so that a table with several indexes can add to all of them or to none: `prepare` gets the
  // memory, may throw, and changes nothing that can be seen; `append` gives the row prepared for the next row number.
  void prepare(const Word* row, RowsView rows) {
    places_.make_room(1);
    make_room_to_remove();  // For taking it back.
    Hasher hasher;
    for (const std::uint32_t column : columns_) hasher.add(row[column]);
    prepared_tag_ = hasher.tag();
    const auto word = [&](std::size_t i) { return row[columns_[i]]; };
    const std::size_t at = slots_.find(prepared_tag_, [&](Row number) { return has_key(groups_[number], word, rows); });
    if (at == SlotTable::kNone) {
      prepared_ = kNoRow;
      slots_.reserve_one();
      if (free_group_ == kNoRow) groups_.make_room();
    } else {
      prepared_ = slots_[at];
      make_room(groups_[prepared_]);
    }
  }

  void append() noexcept {
    const Row row = static_cast<Row>(places_.size());
    if (prepared_ == kNoRow) {
      prepared_ = new_group(prepared_tag_);
      slots_.insert(prepared_tag_, prepared_);
    }
    ++appended_;
    places_.push_back({});
    put(row, {prepared_, groups_[prepared_].size()});
  }

  Place place(Row row) const noexcept { return places_[row]; }

  // One level up or down: the row changes places with its neighbour across the border, and the border moves.
  void raise(Row row, std::uint32_t to) noexcept {
    const Group group = groups_[places_[row].group];
    move(group, row, group.above(to)++);
  }
  void lower(Row row, std::uint32_t from) noexcept {
    const Group group = groups_[places_[row].group];
    move(group, row, --group.above(from));
  }
  // The reverse: back to the position that the row had before.
  void undo_raise(Row row, std::uint32_t to, Row position) noexcept {
    const Group group = groups_[places_[row].group];
    --group.above(to);
    move(group, row, position);
  }
  void undo_lower(Row row, std::uint32_t from, Row position) noexcept {
    const Group group = groups_[places_[row].group];
    ++group.above(from);
    move(group, row, position);
  }

  // Taking a row out needs room for one number in `loose_`, and so may each row added by the update, if it is undone.
  // Its key needs room too, unless it is undone: nobody asks for a group that comes to be empty by that.
  void make_room_to_remove() {
    if (kept_keys_ == kNoKey) throw std::length_error("an update has emptied too many groups");
    loose_.make_room(appended_ + 1);
    kept_.make_room(columns_.size());
  }

  // Takes out a row of level 0, which is still among `rows`; the group's last row takes its place.
  void take_out(Row row, RowsView rows) noexcept {
    take_out_member(row);
    const Group group = groups_[places_[row].group];
    if (!group.empty()) return;
    *members(group) = static_cast<Row>(kept_keys_++);
    for (const std::uint32_t column : columns_) kept_.push_back(rows[row][column]);
  }
  void undo_append(Row row) noexcept {
    take_out_member(row);
    const Group group = groups_[places_[row].group];
    if (group.empty()) *members(group) = kNoKey;
  }

  // Puts a row back where it was: the row that took its place goes to the end again.
  void put(Row row, Place place) noexcept {
    const Group group = groups_[place.group];
    Row* const numbers = members(group);
    const Row end = group.above(0)++;
    if (place.position != end) {
      numbers[end] = numbers[place.position];
      places_[numbers[end]].position = end;
    }
    numbers[place.position] = row;
    places_[row] = place;
  }

  // Gives `row`'s place to number `to`.
  void renumber(Row row, Row to) noexcept {
    const Place place = places_[row];
    members(groups_[place.group])[place.position] = to;
    places_[to] = place;
  }
  void drop_last() noexcept { places_.resize(places_.size() - 1); }
  void add_last() noexcept { places_.resize(places_.size() + 1); }  // The room has stayed since it was dropped.

  // After an update: gives back what it has left unused.
  void tidy() noexcept {
    appended_ = 0;
    if (!std::exchange(removed_, false)) return;
    while (!loose_.empty()) {
      const Row number = loose_.pop_back();
      const Group group = groups_[number];
      if (group.is_free()) continue;
      if (group.empty()) {
        slots_.erase(slots_.find(group.tag(), [&](Row other) { return other == number; }));
        if (group.capacity() != 0) release(group.first(), group.capacity());
        group.set_free(free_group_);
        free_group_ = number;
        ++free_groups_;
      } else if (group.size() == 1 && group.capacity() != 0) {
        const Row only = members(group)[0];
        release(group.first(), group.capacity());
        group.first() = only;
        group.capacity() = 0;
      } else if (group.size() <= group.capacity() / 2) {
        try {
          move_to_block(group, block_size(group.size() + group.size() / 4));
        } catch (const std::exception&) {  // No memory to move into: the group keeps its larger block.
        }
      }
    }
    kept_.resize(0);
    kept_.give_back();
    kept_keys_ = 0;
    loose_.give_back();
    places_.give_back();
    slots_.give_back();
    compact_groups();
    compact_arena();
  }

  // Of an index that is empty: all its memory.
  void release() noexcept {
    slots_.release();
    groups_.release();
    places_.release();
    arena_.release();
    loose_.release();
    kept_.release();
    kept_keys_ = 0;
    free_.fill(kNoBlock);
    free_entries_ = 0;
    free_group_ = kNoRow;
    free_groups_ = 0;
  }

  // For snapshots: the groups one after the other from a number on, until `visit` says that it is enough. Gives the number
  // to go on from.
  template <class Visit>
  Row each_group(Row number, Visit&& visit) const {
    while (number < groups_.size()) {
      const ConstGroup group = groups_[number++];
      if (group.is_free() || group.empty()) continue;
      if (!visit(std::span<const Row>(members(group), group.size()))) break;
    }
    return number;
  }

  // Into an empty index: first room for `rows` rows, then whole groups. `false` if the group cannot be one.
  void start_loading(std::size_t rows) {
    places_.make_room(rows);
    places_.resize(rows);
    std::fill(places_.begin(), places_.end(), Place{kNoRow, 0});
  }
  template <class Levels>
  bool load_group(std::span<const Row> members_of_it, RowsView rows, Levels&& level_of) {
    if (members_of_it.empty()) return false;
    const std::size_t count = places_.size();
    for (const Row row : members_of_it) {
      if (row >= count || places_[row].group != kNoRow) return false;
      for (const std::uint32_t column : columns_) {
        if (rows[row][column] != rows[members_of_it[0]][column]) return false;
      }
    }
    Hasher hasher;
    for (const std::uint32_t column : columns_) hasher.add(rows[members_of_it[0]][column]);
    const auto word = [&](std::size_t i) { return rows[members_of_it[0]][columns_[i]]; };
    const auto same = [&](Row number) { return has_key(groups_[number], word, rows); };
    if (slots_.find(hasher.tag(), same) != SlotTable::kNone) return false;
    slots_.reserve_one();
    groups_.make_room();
    const Row number = new_group(hasher.tag());
    slots_.insert(hasher.tag(), number);
    const Group group = groups_[number];
    if (members_of_it.size() > 1) move_to_block(group, block_size(static_cast<Row>(members_of_it.size())));
    for (const Row row : members_of_it) {
      if (places_[row].group != kNoRow) return false;  // Twice in this group.
      if (!group.empty() && level_of(row) > level_of(members(group)[group.size() - 1])) return false;
      put(row, {number, group.size()});
      for (std::uint32_t level = 1; level <= level_of(row); ++level) ++group.above(level);
    }
    return true;
  }

 private:
  static constexpr Row kNoBlock = std::numeric_limits<Row>::max();
  static constexpr Row kNoKey = std::numeric_limits<Row>::max();

  using Group = GroupHeader<Row>;
  using ConstGroup = GroupHeader<const Row>;

  // Blocks come in sizes 2, 3, 4, 6, 8, 12, 16, 24, …: at most a third of a group's block is idle when it has grown.
  static Row block_size(Row least) noexcept {
    Row size = 2;
    while (size < least) {
      if (size + size / 2 >= least) return size + size / 2;
      size *= 2;
    }
    return size;
  }
  static std::size_t size_class(Row size) noexcept {
    const auto power = static_cast<std::size_t>(std::numeric_limits<Row>::digits - 1 - __builtin_clz(size));
    return 2 * power + ((size & (size - 1)) != 0 ? 1 : 0);
  }

  // Whether `word(i)` is what the group's rows have in the index's column i, for all of them. An empty group's first
  // member is the number of its key among those kept.
  template <class Key>
  bool has_key(ConstGroup group, Key&& word, RowsView rows) const noexcept {
    const Row first = *members(group);
    if (group.empty()) {
      if (first == kNoKey) return false;
      const Word* const own = kept_.data() + first * columns_.size();
      for (std::size_t i = 0; i < columns_.size(); ++i) {
        if (own[i] != word(i)) return false;
      }
      return true;
    }
    const RowRef own = rows[first];
    for (std::size_t i = 0; i < columns_.size(); ++i) {
      if (own[columns_[i]] != word(i)) return false;
    }
    return true;
  }

  const Row* members(ConstGroup group) const noexcept {
    return group.capacity() == 0 ? &group.first() : arena_.data() + group.first();
  }
  Row* members(Group group) noexcept {
    return group.capacity() == 0 ? &group.first() : arena_.data() + group.first();
  }

  std::span<const Row> slice(ConstGroup group, Levels levels) const noexcept {
    const std::uint32_t higher = levels.highest + 1u;
    const Row begin = higher < groups_.levels() ? group.above(higher) : 0;
    return {members(group) + begin, group.above(levels.lowest) - begin};
  }

  Row new_group(Tag tag) noexcept {
    Row number = free_group_;
    if (number == kNoRow) {
      number = static_cast<Row>(groups_.size());
    } else {
      free_group_ = groups_[number].first();
      --free_groups_;
    }
    groups_.write(number, tag);
    return number;
  }

  void move(Group group, Row row, Row to) noexcept {
    Row* const numbers = members(group);
    const Row from = places_[row].position;
    const Row other = numbers[to];
    numbers[from] = other;
    places_[other].position = from;
    numbers[to] = row;
    places_[row].position = to;
  }

  void take_out_member(Row row) noexcept {
    const Place place = places_[row];
    const Group group = groups_[place.group];
    const Row moved = members(group)[--group.above(0)];
    members(group)[place.position] = moved;
    places_[moved].position = place.position;
    removed_ = true;
    if (group.size() <= group.capacity() / 2) loose_.push_back(place.group);
  }

  void make_room(Group group) {
    const Row capacity = std::max<Row>(group.capacity(), 1);
    if (group.size() != capacity) return;
    const Row larger = block_size(capacity + 1);
    const bool is_last = group.capacity() != 0 && std::size_t{group.first()} + capacity == arena_.size();
    if (!is_last) return move_to_block(group, larger);
    extend_arena(larger - capacity);  // The last block grows where it is.
    group.capacity() = larger;
  }

  void move_to_block(Group group, Row capacity) {
    const Row block = allocate(capacity);
    std::copy_n(members(group), group.size(), arena_.data() + block);
    if (group.capacity() != 0) release(group.first(), group.capacity());
    group.first() = block;
    group.capacity() = capacity;
  }

  // Free blocks of a size form a list, linked through their first entries.
  Row allocate(Row capacity) {
    Row& head = free_[size_class(capacity)];
    if (head != kNoBlock) {
      free_entries_ -= capacity;
      return std::exchange(head, arena_[head]);
    }
    const Row block = static_cast<Row>(arena_.size());
    extend_arena(capacity);
    return block;
  }

  void extend_arena(Row entries) {
    if (arena_.size() + entries > kNoBlock) throw std::length_error("an index has grown beyond 2^32 entries");
    arena_.make_room(entries);
    arena_.resize(arena_.size() + entries);
  }

  void release(Row block, Row capacity) noexcept {
    Row& head = free_[size_class(capacity)];
    arena_[block] = std::exchange(head, block);
    free_entries_ += capacity;
  }

  // Compacting copies every live block. It waits until a quarter as many entries are free: freeing them took updates.
  void compact_arena() noexcept {
    const std::size_t live = arena_.size() - free_entries_;
    if (free_entries_ <= (live + groups_.size()) / 4 + 64) return;
    try {
      Array<Row> fresh;
      fresh.make_room(live);
      for (Row number = 0; number < groups_.size(); ++number) {
        const Group group = groups_[number];
        if (group.is_free() || group.capacity() == 0) continue;
        const Row block = static_cast<Row>(fresh.size());
        std::copy_n(arena_.data() + group.first(), group.capacity(), fresh.end());
        fresh.resize(fresh.size() + group.capacity());
        group.first() = block;
      }
      arena_.swap(fresh);
      free_.fill(kNoBlock);
      free_entries_ = 0;
    } catch (const std::bad_alloc&) {
    }
  }

  // Closes the gaps among the headers once most are gaps: the last groups move to the first gaps.
  void compact_groups() noexcept {
    if (free_groups_ <= 3 * (groups_.size() - free_groups_) + 16) return;
    std::size_t end = groups_.size();
    for (Row gap = 0; gap < end; ++gap) {
      if (!groups_[gap].is_free()) continue;
      while (end > gap && groups_[end - 1].is_free()) --end;
      if (end <= gap) break;
      const Row number = static_cast<Row>(--end);
      groups_.copy(number, gap);
      const ConstGroup moved = groups_[gap];
      slots_[slots_.find(moved.tag(), [&](Row other) { return other == number; })] = gap;
      for (const Row row : std::span<const Row>(members(moved), moved.size())) places_[row].group = gap;
    }
    groups_.cut(end);
    free_group_ = kNoRow;
    free_groups_ = 0;
  }

  std::vector<std::uint32_t> columns_;
  SlotTable slots_;
  GroupHeaders groups_;
  Array<Place> places_;
  Array<Row> arena_;
  Array<Row> loose_;  // Groups with memory to give back.
  Array<Word> kept_;  // The keys of groups that the update has left empty,
  std::size_t kept_keys_ = 0;  // and how many these are.
  std::size_t appended_ = 0;  // Since `tidy`, as is
  bool removed_ = false;      // whether a row was.
  std::array<Row, 64> free_;
  std::size_t free_entries_ = 0;
  Row free_group_ = kNoRow;
  std::size_t free_groups_ = 0;
  Tag prepared_tag_ = 0;
  Row prepared_ = kNoRow;
};

}  // namespace everview

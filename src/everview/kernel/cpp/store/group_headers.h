// What a group index keeps of each group: as many words as the table's levels need.
#pragma once

#include "array.h"

namespace everview {

// A group's header, where it stands; `Number` is Row, or const Row.
template <class Number>
class GroupHeader {
 public:
  explicit GroupHeader(Number* at) noexcept : at_(at) {}
  GroupHeader(const GroupHeader<Row>& other) noexcept : at_(&other.tag()) {}

  Number& tag() const noexcept { return at_[0]; }
  Number& first() const noexcept { return at_[1]; }     // The row itself while capacity is 0, else where the block starts.
  Number& capacity() const noexcept { return at_[2]; }  // Of the block.
  Number& above(std::uint32_t level) const noexcept { return at_[3 + level]; }  // How many rows are on it or above.

  Row size() const noexcept { return above(0); }
  bool empty() const noexcept { return above(0) == 0; }

  // A header without a group is one of a list.
  bool is_free() const noexcept { return capacity() == kFree; }
  void set_free(Row next_free) const noexcept {
    first() = next_free;
    capacity() = kFree;
    above(0) = 0;
  }

 private:
  static_assert(std::is_same_v<Tag, Row>);
  static constexpr Row kFree = std::numeric_limits<Row>::max();

  Number* at_;
};

// All headers of an index, one after the other: three words and a border for each level that the table has.
class GroupHeaders {
 public:
  explicit GroupHeaders(std::uint32_t levels) noexcept : levels_(levels) {}

  std::uint32_t levels() const noexcept { return levels_; }
  std::size_t size() const noexcept { return words_.size() / width(); }
  std::size_t nbytes() const noexcept { return words_.nbytes(); }
  GroupHeader<Row> operator[](std::size_t number) noexcept { return GroupHeader<Row>(words_.data() + number * width()); }
  GroupHeader<const Row> operator[](std::size_t number) const noexcept {
    return GroupHeader<const Row>(words_.data() + number * width());
  }
  void prefetch(std::size_t number) const noexcept { __builtin_prefetch(words_.data() + number * width()); }

  // After it, one more header can be written.
  void make_room() { words_.make_room(width()); }

  // The header of a group without rows, in a header's place or after the last one.
  void write(std::size_t number, Tag tag) noexcept {
    if (number == size()) words_.resize(words_.size() + width());
    std::fill_n(words_.data() + number * width(), width(), Row{0});
    (*this)[number].tag() = tag;
  }
  void copy(std::size_t from, std::size_t to) noexcept {
    std::copy_n(words_.data() + from * width(), width(), words_.data() + to * width());
  }

  // Only the first `groups` stay.
  void cut(std::size_t groups) noexcept {
    words_.resize(groups * width());
    words_.give_back();
  }
  void release() noexcept { words_.release(); }

 private:
  std::size_t width() const noexcept { return 3 + std::size_t{levels_}; }

  std::uint32_t levels_;
  Array<Row> words_;
};

}  // namespace everview

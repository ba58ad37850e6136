// Open addressing with linear probing, shared by the tables and their group indexes.
#pragma once

#include "array.h"

namespace everview {

// A hash table from tags to numbers (of rows, of groups); what a number stands for, and so whether a key is the same,
// is the caller's business. A tag's home is proportional to the tag, so capacities need not be powers of two, and
// growing is one sweep. Erasing shifts followers back, so there are no tombstones and a table that shrinks probes as
// fast as one that never grew.
class SlotTable {
 public:
  static constexpr std::size_t kNone = std::numeric_limits<std::size_t>::max();

  std::size_t nbytes() const noexcept { return slots_.nbytes(); }
  std::uint32_t& operator[](std::size_t at) noexcept { return slots_[at].number; }
  const std::uint32_t& operator[](std::size_t at) const noexcept { return slots_[at].number; }

  // Where the number with this tag is for which `same(number)` holds, or kNone.
  template <class Same>
  std::size_t find(Tag tag, Same&& same) const noexcept {
    if (size_ == 0) return kNone;
    for (std::size_t at = home(tag);; at = next(at)) {
      const Slot& slot = slots_[at];
      if (slot.empty()) return kNone;
      if (slot.tag == tag && same(slot.number)) return at;
    }
  }

  void prefetch(Tag tag) const noexcept {
    if (size_ != 0) __builtin_prefetch(slots_.data() + home(tag));
  }

  // After it, one `insert` cannot fail. Moves slots, so positions found earlier are void.
  void reserve_one() {
    if (5 * (size_ + 1) <= 4 * slots_.size()) return;
    rehash(std::max(kMinCapacity, slots_.size() + slots_.size() / (slots_.size() < kLarge ? 2 : 16)));
  }

  void insert(Tag tag, std::uint32_t number) noexcept {
    place({tag, number});
    ++size_;
  }

  void erase(std::size_t hole) noexcept {
    for (std::size_t at = next(hole); !slots_[at].empty(); at = next(at)) {
      // The slot at `at` may move back into the hole unless it would come to lie before its home.
      if (distance(home(slots_[at].tag), at) >= distance(hole, at)) {
        slots_[hole] = slots_[at];
        hole = at;
      }
    }
    slots_[hole] = Slot{};
    --size_;
  }

  void release() noexcept {
    slots_.release();
    size_ = 0;
  }

  void give_back() noexcept {
    if (slots_.size() <= kMinCapacity || 6 * size_ >= slots_.size()) return;
    try {
      rehash(std::max(kMinCapacity, 2 * size_));
    } catch (const std::bad_alloc&) {  // No memory to move into: the larger table stays.
    }
  }

 private:
  struct Slot {
    Tag tag = 0;
    std::uint32_t number = kNoRow;

    bool empty() const noexcept { return number == kNoRow; }
  };

  static constexpr std::size_t kMinCapacity = 8;  // At most 4/5 of the slots are taken.
  static constexpr std::size_t kLarge = 4096;     // From here on memory counts for more than growing seldom.

  std::size_t home(Tag tag) const noexcept { return (std::uint64_t{tag} * slots_.size()) >> 32; }
  std::size_t next(std::size_t at) const noexcept { return at + 1 == slots_.size() ? 0 : at + 1; }
  std::size_t distance(std::size_t from, std::size_t to) const noexcept {
    return to >= from ? to - from : to + slots_.size() - from;
  }

  void place(Slot slot) noexcept {
    std::size_t at = home(slot.tag);
    while (!slots_[at].empty()) at = next(at);
    slots_[at] = slot;
  }

  void rehash(std::size_t capacity) {
    Array<Slot> old;
    old.make_room(capacity);
    old.resize(capacity);
    std::fill(old.begin(), old.end(), Slot{});
    old.swap(slots_);
    for (const Slot slot : old) {
      if (!slot.empty()) place(slot);
    }
  }

  Array<Slot> slots_;
  std::size_t size_ = 0;
};

}  // namespace everview

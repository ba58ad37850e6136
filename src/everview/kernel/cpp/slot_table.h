// Open addressing with linear probing, shared by the row index and the group indexes.
#pragma once

#include "words.h"

namespace everview {

// A hash table of small trivially copyable slots. A `Slot` has a `tag` and says whether it is `empty()`; what it stands
// for, and so whether two slots are the same, is the caller's business. Erasing shifts followers back, so there are no
// tombstones and a table that shrinks probes as fast as one that never grew.
template <class Slot>
class SlotTable {
 public:
  static constexpr std::size_t kNone = std::numeric_limits<std::size_t>::max();

  std::size_t size() const noexcept { return size_; }
  std::size_t capacity() const noexcept { return slots_.size(); }
  std::size_t nbytes() const noexcept { return bytes_of(slots_); }
  Slot& operator[](std::size_t at) noexcept { return slots_[at]; }
  const Slot& operator[](std::size_t at) const noexcept { return slots_[at]; }
  auto begin() noexcept { return slots_.begin(); }
  auto end() noexcept { return slots_.end(); }

  // Where the slot with this tag is for which `same(slot)` holds, or kNone.
  template <class Same>
  std::size_t find(Tag tag, Same&& same) const noexcept {
    if (slots_.empty()) return kNone;
    for (std::size_t at = home(tag);; at = next(at)) {
      const Slot& slot = slots_[at];
      if (slot.empty()) return kNone;
      if (slot.tag == tag && same(slot)) return at;
    }
  }

  // After it, one `insert` cannot fail. Moves slots, so positions found earlier are void.
  void reserve_one() {
    if (4 * (size_ + 1) > 3 * capacity()) rehash(std::max(kMinCapacity, 2 * capacity()));
  }

  void insert(const Slot& slot) noexcept {
    place(slots_, slot);
    ++size_;
  }

  void erase(std::size_t hole) noexcept {
    for (std::size_t at = next(hole); !slots_[at].empty(); at = next(at)) {
      // The slot at `at` may move back into the hole unless it would come to lie before its home.
      const std::size_t from_home = (at - home(slots_[at].tag)) & mask();
      const std::size_t from_hole = (at - hole) & mask();
      if (from_home >= from_hole) {
        slots_[hole] = slots_[at];
        hole = at;
      }
    }
    slots_[hole] = Slot{};
    --size_;
  }

  void give_back() noexcept {
    std::size_t wanted = capacity();
    if (8 * size_ >= wanted) return;
    while (wanted > kMinCapacity && 4 * size_ < wanted) wanted /= 2;
    if (wanted == capacity()) return;
    try {
      rehash(wanted);
    } catch (const std::bad_alloc&) {
    }
  }

  void clear() noexcept {
    std::vector<Slot>().swap(slots_);
    size_ = 0;
  }

 private:
  static constexpr std::size_t kMinCapacity = 8;  // Capacities are powers of two; at most 3/4 of the slots are taken.

  std::size_t mask() const noexcept { return slots_.size() - 1; }
  std::size_t home(Tag tag) const noexcept { return tag & mask(); }
  std::size_t next(std::size_t at) const noexcept { return (at + 1) & mask(); }

  static void place(std::vector<Slot>& slots, const Slot& slot) noexcept {
    const std::size_t mask = slots.size() - 1;
    std::size_t at = slot.tag & mask;
    while (!slots[at].empty()) at = (at + 1) & mask;
    slots[at] = slot;
  }

  void rehash(std::size_t capacity) {
    std::vector<Slot> fresh(capacity);
    for (const Slot& slot : slots_) {
      if (!slot.empty()) place(fresh, slot);
    }
    slots_.swap(fresh);
  }

  std::vector<Slot> slots_;
  std::size_t size_ = 0;
};

}  // namespace everview

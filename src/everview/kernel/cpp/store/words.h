// What everything in the kernel is made of: 64-bit words, row numbers, and the hash of a run of words.
#pragma once

#include <cstddef>
#include <cstdint>
#include <limits>

namespace everview {

using Word = std::int64_t;
using Row = std::uint32_t;  // A row's number in its table: dense, and changed when a swap-remove moves the row.
using Tag = std::uint32_t;  // What hash indexes keep of a hash.

inline constexpr Row kNoRow = std::numeric_limits<Row>::max();
inline constexpr std::size_t kMaxRows = std::size_t{1} << 31;  // So that a 32-bit tag addresses every slot.
inline constexpr std::uint32_t kMostLevels = 8;  // A table has 1 to 8 levels, numbered from 0.

// Some levels of a table, both ends included.
struct Levels {
  std::uint8_t lowest = 0;
  std::uint8_t highest = 0;

  bool contain(std::uint8_t level) const noexcept { return lowest <= level && level <= highest; }

  // In six bits, as instructions have them.
  std::uint8_t packed() const noexcept { return static_cast<std::uint8_t>(lowest | highest << 3); }
  static Levels unpack(std::uint8_t bits) noexcept {
    return {static_cast<std::uint8_t>(bits & 7), static_cast<std::uint8_t>(bits >> 3 & 7)};
  }
};

// The tests of a program, by their numbers.
inline bool test_words(std::uint8_t test, Word a, Word b) noexcept {
  switch (test) {
    case 0:
      return a == b;
    case 1:
      return a != b;
    case 2:
      return a < b;
    default:
      return a <= b;
  }
}

// Mixes words one at a time by multiplying 64 × 64 → 128 bits and folding the halves (as wyhash does), so that every
// bit of every word, and the words' order, reaches every bit of the tag. The seed is fixed: state that was saved, or
// mapped by another process, stays valid.
class Hasher {
 public:
  void add(Word word) noexcept { state_ = fold(state_ ^ static_cast<std::uint64_t>(word), 0xa0761d6478bd642f); }
  Tag tag() const noexcept { return static_cast<Tag>(value() >> 32); }
  std::uint64_t value() const noexcept { return fold(state_, 0xe7037ed1a0b428db); }

 private:
  static std::uint64_t fold(std::uint64_t a, std::uint64_t b) noexcept {
    __extension__ using Wide = unsigned __int128;
    const Wide product = static_cast<Wide>(a) * b;
    return static_cast<std::uint64_t>(product) ^ static_cast<std::uint64_t>(product >> 64);
  }

  std::uint64_t state_ = 0x8ebc6af09c88c6e3;
};

}  // namespace everview

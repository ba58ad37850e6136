// Exact numbers of up to 38 digits, as expressions compute them: integers, decimals scaled to integers, days, instants.
#pragma once

#include <array>
#include <cstring>

#include "../store/wide.h"

namespace everview {

__extension__ using Exact = __int128;
__extension__ using Magnitude = unsigned __int128;

inline constexpr unsigned kMostDigits = 38;

inline Exact power_of_ten(unsigned digits) noexcept {
  Exact power = 1;
  for (unsigned i = 0; i < digits; ++i) power *= 10;
  return power;
}

inline Magnitude magnitude_of(Exact number) noexcept {
  return number < 0 ? Magnitude{0} - static_cast<Magnitude>(number) : static_cast<Magnitude>(number);
}

inline Exact exact_of(Word low, Word high) noexcept {
  return static_cast<Exact>(static_cast<Magnitude>(bits_of(high)) << 64 | bits_of(low));
}
inline Word low_word(Exact number) noexcept { return static_cast<Word>(static_cast<std::uint64_t>(number)); }
inline Word high_word(Exact number) noexcept {
  return static_cast<Word>(static_cast<std::uint64_t>(static_cast<Magnitude>(number) >> 64));
}
inline bool fits_word(Exact number) noexcept { return number == static_cast<Exact>(low_word(number)); }

// What a type holds. A positive code is the bits of an integer, a negative one the digits of a decimal.
struct Limit {
  Exact least = 0;
  Exact most = 0;

  static Limit of(Word code) {
    if (code == 0 || code > 64 || code < -static_cast<Word>(kMostDigits)) throw std::invalid_argument("bad limit");
    if (code > 0) {
      const Exact half = Exact{1} << (code - 1);
      return {-half, half - 1};
    }
    const Exact most = power_of_ten(static_cast<unsigned>(-code)) - 1;
    return {-most, most};
  }
  bool holds(Exact number) const noexcept { return least <= number && number <= most; }
};

// The number in some words; false if it has more than 38 digits' worth of bits.
inline bool narrow(const Word* words, std::size_t size, Exact& number) noexcept {
  const std::size_t needed = needed_words(words, size);
  if (needed > 2) return false;
  number = needed == 1 ? Exact{words[0]} : exact_of(words[0], words[1]);
  return true;
}

// Decimals as the value table keeps them: 256 bits, the lowest byte first, scaled by 10^38.
inline constexpr unsigned kStoredScale = 38;
using StoredDecimal = std::array<std::uint64_t, 4>;

inline void negate_stored(StoredDecimal& number) noexcept {
  std::uint64_t carry = 1;
  for (std::uint64_t& limb : number) {
    limb = ~limb + carry;
    carry = carry != 0 && limb == 0 ? 1 : 0;
  }
}

inline StoredDecimal to_stored(Exact number, unsigned scale) noexcept {
  const Magnitude size = magnitude_of(number);
  StoredDecimal stored = {static_cast<std::uint64_t>(size), static_cast<std::uint64_t>(size >> 64), 0, 0};
  for (unsigned left = kStoredScale - scale; left != 0;) {
    const unsigned digits = std::min(left, 18u);
    const auto factor = static_cast<std::uint64_t>(power_of_ten(digits));
    std::uint64_t carry = 0;
    for (std::uint64_t& limb : stored) {
      const Magnitude product = Magnitude{limb} * factor + carry;
      limb = static_cast<std::uint64_t>(product);
      carry = static_cast<std::uint64_t>(product >> 64);
    }
    left -= digits;
  }
  if (number < 0) negate_stored(stored);
  return stored;
}

// The same back; false if the number has more digits behind its point, or in all.
inline bool from_stored(StoredDecimal stored, unsigned scale, Exact& number) noexcept {
  const bool negative = static_cast<std::int64_t>(stored[3]) < 0;
  if (negative) negate_stored(stored);
  for (unsigned left = kStoredScale - scale; left != 0;) {
    const unsigned digits = std::min(left, 18u);
    const auto divisor = static_cast<std::uint64_t>(power_of_ten(digits));
    std::uint64_t rest = 0;
    for (std::size_t i = stored.size(); i-- > 0;) {
      const Magnitude part = Magnitude{rest} << 64 | stored[i];
      stored[i] = static_cast<std::uint64_t>(part / divisor);
      rest = static_cast<std::uint64_t>(part % divisor);
    }
    if (rest != 0) return false;
    left -= digits;
  }
  if (stored[2] != 0 || stored[3] != 0 || static_cast<std::int64_t>(stored[1]) < 0) return false;
  const Exact size = exact_of(static_cast<Word>(stored[0]), static_cast<Word>(stored[1]));
  number = negative ? -size : size;
  return true;
}

}  // namespace everview

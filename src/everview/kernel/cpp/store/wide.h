// Numbers of several words: two's complement, the lowest word first. Nothing wraps: what does not fit is told.
#pragma once

#include <algorithm>

#include "words.h"

namespace everview {

inline constexpr std::size_t kMostWords = 6;

__extension__ using TwoWords = unsigned __int128;

inline std::uint64_t bits_of(Word word) noexcept { return static_cast<std::uint64_t>(word); }

// What stands above a number's highest word: 0, or -1 if it is negative.
inline Word sign_of(Word highest) noexcept { return highest < 0 ? -1 : 0; }

// How many of its words a number needs.
inline std::size_t needed_words(const Word* words, std::size_t size) noexcept {
  while (size > 1 && words[size - 1] == sign_of(words[size - 2])) --size;
  return size;
}

inline bool is_short(const Word* words, std::size_t size) noexcept {
  return std::all_of(words + 1, words + size, [sign = sign_of(words[0])](Word word) { return word == sign; });
}

inline bool is_zero(const Word* words, std::size_t size) noexcept {
  return std::all_of(words, words + size, [](Word word) { return word == 0; });
}

// A number of at most `kMost` words, of which it keeps as many as it needs.
template <std::size_t kMost>
struct WideNumber {
  std::size_t size = 1;
  Word words[kMost] = {0};

  WideNumber() = default;
  WideNumber(const Word* from, std::size_t count) noexcept : size(needed_words(from, count)) {
    std::copy_n(from, size, words);
  }
  explicit WideNumber(Word word) noexcept : words{word} {}

  Word word(std::size_t i) const noexcept { return i < size ? words[i] : sign_of(words[size - 1]); }
  bool is_negative() const noexcept { return words[size - 1] < 0; }
  bool is_zero() const noexcept { return size == 1 && words[0] == 0; }
};

using Wide = WideNumber<kMostWords>;
using WideResult = WideNumber<2 * kMostWords>;

// a + b, or a - b.
inline WideResult add(const Wide& a, const Wide& b, bool subtracts) noexcept {
  WideResult sum;
  sum.size = std::max(a.size, b.size) + 1;
  std::uint64_t carry = subtracts ? 1 : 0;
  for (std::size_t i = 0; i < sum.size; ++i) {
    const std::uint64_t other = bits_of(b.word(i));
    const TwoWords both = TwoWords{bits_of(a.word(i))} + (subtracts ? ~other : other) + carry;
    sum.words[i] = static_cast<Word>(static_cast<std::uint64_t>(both));
    carry = static_cast<std::uint64_t>(both >> 64);
  }
  sum.size = needed_words(sum.words, sum.size);
  return sum;
}

template <std::size_t kMost>
inline void negate(WideNumber<kMost>& number, std::size_t size) noexcept {
  std::uint64_t carry = 1;
  for (std::size_t i = 0; i < size; ++i) {
    const std::uint64_t flipped = ~bits_of(number.words[i]) + carry;
    carry = carry != 0 && flipped == 0 ? 1 : 0;
    number.words[i] = static_cast<Word>(flipped);
  }
}

// a * b, of magnitudes: the lowest number of n words has one of n words, too, if it is read without a sign.
inline WideResult multiply(Wide a, Wide b) noexcept {
  Word small = 0;
  if (a.size == 1 && b.size == 1 && !__builtin_mul_overflow(a.words[0], b.words[0], &small)) return WideResult(small);
  const bool negative = a.is_negative() != b.is_negative();
  if (a.is_negative()) negate(a, a.size);
  if (b.is_negative()) negate(b, b.size);
  WideResult product;
  product.size = a.size + b.size;
  std::fill_n(product.words, product.size, 0);
  for (std::size_t i = 0; i < a.size; ++i) {
    std::uint64_t carry = 0;
    for (std::size_t j = 0; j < b.size; ++j) {
      const TwoWords part = TwoWords{bits_of(a.words[i])} * bits_of(b.words[j]) + bits_of(product.words[i + j]) + carry;
      product.words[i + j] = static_cast<Word>(static_cast<std::uint64_t>(part));
      carry = static_cast<std::uint64_t>(part >> 64);
    }
    product.words[i + b.size] = static_cast<Word>(carry);
  }
  if (negative) negate(product, product.size);
  product.size = needed_words(product.words, product.size);
  return product;
}

inline int compare(const Wide& a, const Wide& b) noexcept {
  std::size_t i = std::max(a.size, b.size) - 1;
  if (a.word(i) != b.word(i)) return a.word(i) < b.word(i) ? -1 : 1;
  while (i-- > 0) {
    if (a.word(i) != b.word(i)) return bits_of(a.word(i)) < bits_of(b.word(i)) ? -1 : 1;
  }
  return 0;
}

// Writes all words of a number of a given width; false if it has more.
template <std::size_t kMost>
inline bool write(const WideNumber<kMost>& number, std::size_t width, Word* words) noexcept {
  if (number.size > width) return false;
  for (std::size_t i = 0; i < width; ++i) words[i] = number.word(i);
  return true;
}

}  // namespace everview

// Rows with equal words as one, with their weights added up.
#pragma once

#include <bit>
#include <vector>

#include "../store/words.h"
#include "../store/row_store.h"

namespace everview {

// Gives the place of the first of each row's equals, in order, and the sum of their weights; and which of these each row
// is one of, if there are `numbers` for that. False if a sum is -2^63 or leaves its word.
inline bool added_up(const std::vector<const Word*>& keys, const Word* weights, std::size_t rows,
                     std::vector<std::uint32_t>& first, std::vector<Word>& sums, std::uint32_t* numbers = nullptr) {
  std::vector<std::uint32_t> slots(std::bit_ceil(2 * rows + 1), kNoRow);  // Places in `first`.
  const std::size_t mask = slots.size() - 1;
  for (std::size_t i = 0; i < rows; ++i) {
    Hasher hasher;
    for (const Word* const key : keys) hasher.add(key[i]);
    for (std::size_t at = hasher.value() & mask;; at = (at + 1) & mask) {
      if (slots[at] == kNoRow) {
        slots[at] = static_cast<std::uint32_t>(first.size());
        if (numbers != nullptr) numbers[i] = slots[at];
        first.push_back(static_cast<std::uint32_t>(i));
        sums.push_back(weights[i]);
        break;
      }
      const std::size_t other = first[slots[at]];
      bool same = true;
      for (std::size_t k = 0; k < keys.size() && same; ++k) same = keys[k][other] == keys[k][i];
      if (!same) continue;
      if (numbers != nullptr) numbers[i] = slots[at];
      if (__builtin_add_overflow(sums[slots[at]], weights[i], &sums[slots[at]])) return false;
      break;
    }
  }
  for (const Word sum : sums) {
    if (sum == std::numeric_limits<Word>::min()) return false;
  }
  return true;
}

}  // namespace everview

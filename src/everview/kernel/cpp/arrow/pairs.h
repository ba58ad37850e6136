// The two rows of one group in a delta, the old and the new one, found and put next to each other.
#pragma once

#include <bit>
#include <vector>

#include "feed_columns.h"

namespace everview {

// What happened to a row, by its number in a list of names.
enum class Happened : Word { kComes, kGoes, kBefore, kAfter };

struct PairedRows {
  Column order;     // Row numbers; a pair stands where its first row was.
  Column happened;  // For each of them.
};

// Rows that agree in all of `keys` are one group; of its rows, one that goes and one that comes are a pair.
inline PairedRows pair_rows(const std::vector<const Word*>& keys, const Word* weights, std::size_t rows) {
  const auto same = [&](std::size_t a, std::size_t b) {
    for (const Word* const key : keys) {
      if (key[a] != key[b]) return false;
    }
    return true;
  };
  const std::size_t mask = std::bit_ceil(2 * rows + 1) - 1;
  std::vector<Row> slots(mask + 1, kNoRow), partners(rows, kNoRow);
  for (std::size_t i = 0; i < rows; ++i) {
    Hasher hasher;
    for (const Word* const key : keys) hasher.add(key[i]);
    for (std::size_t at = hasher.value() & mask;; at = (at + 1) & mask) {
      const Row other = slots[at];
      if (other == kNoRow) {
        slots[at] = static_cast<Row>(i);
        break;
      }
      if (!same(other, i)) continue;
      if (partners[other] == kNoRow && (weights[other] > 0) != (weights[i] > 0)) {
        partners[other] = static_cast<Row>(i);
        partners[i] = other;
      }
      break;
    }
  }
  PairedRows made{pooled_column(rows), pooled_column(rows)};
  Word* order = made.order.words.get();
  Word* happened = made.happened.words.get();
  const auto tell = [&](std::size_t row, Happened what) {
    *order++ = static_cast<Word>(row);
    *happened++ = static_cast<Word>(what);
  };
  for (std::size_t i = 0; i < rows; ++i) {
    if (partners[i] == kNoRow) {
      tell(i, weights[i] > 0 ? Happened::kComes : Happened::kGoes);
    } else if (i < partners[i]) {
      const bool comes = weights[i] > 0;
      tell(comes ? partners[i] : i, Happened::kBefore);
      tell(comes ? i : partners[i], Happened::kAfter);
    }
  }
  return made;
}

}  // namespace everview

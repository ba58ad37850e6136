// Columns of numbers of several words: a column for each word, the lowest first, or the words of each row side by side.
#pragma once

#include <optional>
#include <vector>

#include "../store/wide.h"
#include "feed_columns.h"

namespace everview {

// The number in one row of adjacent columns.
inline Wide wide_at(const std::vector<const Word*>& columns, std::size_t row) noexcept {
  Word words[kMostWords];
  for (std::size_t i = 0; i < columns.size(); ++i) words[i] = columns[i][row];
  return {words, columns.size()};
}

struct WideProducts {
  std::vector<Column> columns;
  std::optional<std::size_t> beyond;  // The first row whose product has more words; nothing is made then.
};

// Of each row a value, which has `width` words side by side, or its square, times a factor.
inline WideProducts multiplied(const Word* values, std::size_t width, bool squared,
                               const std::vector<const Word*>& factors, std::size_t rows, std::size_t words) {
  WideProducts made;
  for (std::size_t i = 0; i < words; ++i) made.columns.push_back(pooled_column(rows));
  Word product[kMostWords];
  for (std::size_t row = 0; row < rows; ++row) {
    Wide value(values + row * width, width);
    bool fits = true;
    if (squared) {
      const WideResult square = multiply(value, value);
      fits = square.size <= kMostWords;
      if (fits) value = Wide(square.words, square.size);
    }
    if (!fits || !write(multiply(value, wide_at(factors, row)), words, product)) {
      made.beyond = row;
      return made;
    }
    for (std::size_t i = 0; i < words; ++i) made.columns[i].words.get()[row] = product[i];
  }
  return made;
}

struct NarrowedColumn {
  Column numbers;                // `words` words a row, side by side; 0 where a number is beyond.
  std::optional<Column> beyond;  // 1 where a number is larger than the largest one, above or below 0; none: nowhere.
};

inline NarrowedColumn narrowed(const std::vector<const Word*>& columns, std::size_t rows, const Wide& largest,
                               std::size_t words) {
  NarrowedColumn made{pooled_column(rows * words), std::nullopt};
  Word* out = made.numbers.words.get();
  Wide smallest = largest;
  negate(smallest, smallest.size);
  for (std::size_t row = 0; row < rows; ++row, out += words) {
    const Wide number = wide_at(columns, row);
    if (compare(number, largest) <= 0 && compare(smallest, number) <= 0 && write(number, words, out)) continue;
    std::fill_n(out, words, 0);
    if (!made.beyond) made.beyond = constant_column(0, rows);
    made.beyond->words.get()[row] = 1;
  }
  return made;
}

}  // namespace everview

// What an atom takes of a table's rows: which of them fit it, the words of its variables, and what its sums change by.
#pragma once

#include <optional>

#include "expression.h"

namespace everview {

enum class SumKind : std::uint8_t { kValue, kPresent, kSquare };

// A number that is summed up: its change is the value, 1 where there is one, or the square, times the copies.
struct Summand {
  Expression value;
  SumKind kind = SumKind::kValue;
  std::size_t words = 1;
};

// One value's change of a sum, in all its words; false if it has more.
inline bool change_of_sum(SumKind kind, bool is_null, Exact value, const Word* copies, std::size_t copies_words,
                          std::size_t words, Word* out) noexcept {
  if (is_null) {
    std::fill_n(out, words, 0);
    return true;
  }
  if (kind == SumKind::kPresent) value = 1;
  if (kind != SumKind::kSquare && copies_words == 1 && words <= 2 && fits_word(value)) {
    const Exact product = value * copies[0];
    if (words == 1 && !fits_word(product)) return false;
    out[0] = low_word(product);
    if (words == 2) out[1] = high_word(product);
    return true;
  }
  const Word both[2] = {low_word(value), high_word(value)};
  Wide number(both, 2);
  if (kind == SumKind::kSquare) {
    const WideResult square = multiply(number, number);
    if (square.size > kMostWords) return false;
    number = Wide(square.words, square.size);
  }
  return write(multiply(number, Wide(copies, copies_words)), words, out);
}

// Doubles as words that compare as they do; its own inverse. NULL stays the least of all.
inline Word turned(Word word) noexcept {
  return word < 0 && word != ValueTable::kNull ? word ^ std::numeric_limits<Word>::max() : word;
}

// What is computed of rows; columns beyond those that there are lie here.
struct MadeColumns {
  std::vector<std::vector<Word>> owned;
  std::vector<const Word*> columns;  // Of a procedure: of these and of those that there were.
  std::vector<std::uint8_t> wanted;  // 1 for rows that fit one of the atoms.
  bool any = false;

  Word* add(std::size_t rows) {
    owned.emplace_back(rows);
    columns.push_back(owned.back().data());
    return owned.back().data();
  }
};

struct AtomInput {
  struct Test {
    enum class Kind : std::uint8_t { kNotNull, kSameAs, kEquals, kWithin };
    Kind kind = Kind::kNotNull;
    std::uint32_t column = 0;
    std::uint32_t other = 0;  // kSameAs: a column; kEquals: a constant.
    Word least = 0, most = 0;
  };

  // A value that is kept in order: a column, or one that is computed.
  struct InOrder {
    std::optional<std::uint32_t> column;
    Expression computed;
    bool is_floating = false;
  };

  std::size_t arity = 0;
  std::vector<Test> tests;           // Of the stored columns,
  std::vector<Expression> computed;  // columns that are computed of those,
  std::vector<Test> later;           // tests of these,
  std::vector<Expression> conditions;
  std::vector<Summand> sums;
  std::vector<std::uint32_t> outputs;  // The columns of the variables.
  std::vector<InOrder> values;

  // Adds the columns for a procedure; false if a value that counts has more digits than its type, or the like.
  bool make(const std::vector<const Word*>& stored, const Word* weights, std::size_t rows, const Constants& constants,
            std::vector<Values>& stack, MadeColumns& made) const {
    std::vector<Source> sources(stored.size());
    for (std::size_t i = 0; i < stored.size(); ++i) sources[i].words = stored[i];
    std::vector<std::uint8_t> fits(rows, 1);
    for (const Test& test : tests) apply(test, sources, constants, rows, fits);
    std::vector<const Word*> columns = stored;
    for (const Expression& expression : computed) {
      made.owned.emplace_back(rows);
      Word* const out = made.owned.back().data();
      const bool fine = each_run(rows, [&](std::size_t first, std::size_t count) {
        if (!expression.compute(sources, constants, first, count, nullptr, stack)) return false;
        return to_words(stack[0], count, out + first);
      });
      if (!fine) return false;
      columns.push_back(out);
    }
    for (std::size_t i = stored.size(); i < columns.size(); ++i) sources.push_back({columns[i], nullptr, nullptr});
    for (const Test& test : later) apply(test, sources, constants, rows, fits);
    for (const Expression& condition : conditions) {
      const bool fine = each_run(rows, [&](std::size_t first, std::size_t count) {
        if (!condition.compute(sources, constants, first, count, fits.data(), stack)) return false;
        for (std::size_t i = 0; i < count; ++i) {
          fits[first + i] &= stack[0].nulls[i] == 0 && stack[0].values[i] != 0;
        }
        return true;
      });
      if (!fine) return false;
    }
    for (const std::uint32_t output : outputs) made.columns.push_back(columns[output]);
    Word* const flag = made.add(rows);
    for (std::size_t i = 0; i < rows; ++i) {
      flag[i] = fits[i];
      made.wanted[i] |= fits[i];
      made.any |= fits[i] != 0;
    }
    for (const Summand& sum : sums) {
      std::vector<Word*> out;
      for (std::size_t i = 0; i < sum.words; ++i) out.push_back(made.add(rows));
      const bool fine = each_run(rows, [&](std::size_t first, std::size_t count) {
        if (!sum.value.compute(sources, constants, first, count, fits.data(), stack)) return false;
        Word words[kMostWords] = {};
        for (std::size_t i = 0; i < count; ++i) {
          const bool counts = fits[first + i] != 0 && stack[0].nulls[i] == 0;
          if (!change_of_sum(sum.kind, !counts, stack[0].values[i], weights + first + i, 1, sum.words, words)) return false;
          for (std::size_t w = 0; w < sum.words; ++w) out[w][first + i] = words[w];
        }
        return true;
      });
      if (!fine) return false;
    }
    for (const InOrder& value : values) {
      Word* const out = made.add(rows);
      if (value.column) {
        const Word* const words = columns[*value.column];
        for (std::size_t i = 0; i < rows; ++i) out[i] = value.is_floating ? turned(words[i]) : words[i];
        continue;
      }
      const bool fine = each_run(rows, [&](std::size_t first, std::size_t count) {
        if (!value.computed.compute(sources, constants, first, count, fits.data(), stack)) return false;
        for (std::size_t i = 0; i < count; ++i) stack[0].nulls[i] |= fits[first + i] == 0;
        return to_words(stack[0], count, out + first);
      });
      if (!fine) return false;
    }
    return true;
  }

  template <class Run>
  static bool each_run(std::size_t rows, Run&& run) {
    for (std::size_t first = 0; first < rows; first += kRun) {
      if (!run(first, std::min(kRun, rows - first))) return false;
    }
    return true;
  }

  // Values as words; false if one has none.
  static bool to_words(const Values& values, std::size_t count, Word* out) noexcept {
    for (std::size_t i = 0; i < count; ++i) {
      if (values.nulls[i] != 0) {
        out[i] = ValueTable::kNull;
      } else if (fits_word(values.values[i]) && low_word(values.values[i]) != ValueTable::kNull) {
        out[i] = low_word(values.values[i]);
      } else {
        return false;
      }
    }
    return true;
  }

 private:
  static void apply(const Test& test, const std::vector<Source>& sources, const Constants& constants, std::size_t rows,
                    std::vector<std::uint8_t>& fits) {
    const Word* const words = sources[test.column].words;
    switch (test.kind) {
      case Test::Kind::kNotNull:
        for (std::size_t i = 0; i < rows; ++i) fits[i] &= words[i] != ValueTable::kNull;
        return;
      case Test::Kind::kSameAs: {
        const Word* const other = sources[test.other].words;
        for (std::size_t i = 0; i < rows; ++i) fits[i] &= words[i] == other[i];
        return;
      }
      case Test::Kind::kEquals: {
        const Word word = low_word(constants[test.other]);
        for (std::size_t i = 0; i < rows; ++i) fits[i] &= words[i] == word;
        return;
      }
      case Test::Kind::kWithin:
        for (std::size_t i = 0; i < rows; ++i) fits[i] &= test.least <= words[i] && words[i] <= test.most;
        return;
    }
  }
};

}  // namespace everview

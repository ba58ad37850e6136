// Rows of several views of one unit, its sides, as those of one: set operations.
#pragma once

#include "row_output.h"

namespace everview {

// Rows that have changed, as words.
struct WordPiece {
  std::vector<Column> columns;
  Column weights;
};

inline OutputRows rows_of_piece(const WordPiece& piece) {
  OutputRows made;
  made.size = piece.weights.size;
  for (const Column& column : piece.columns) made.outputs.push_back({column, {}, {}});
  made.weights = piece.weights;
  return made;
}

struct SetOperation {
  enum class Kind : std::uint8_t {
    kUnionAll,
    kUnion,
    kExcept,
    kExceptAll,
    kIntersect,
    kIntersectAll,
    kTestedUnion,  // Of sides that have each row once, and can be asked whether they have one.
  };

  // How a side is asked whether it has a row.
  struct Test {
    std::size_t ask = 0;      // The function,
    std::size_t answers = 0;  // and its channel.
  };

  // What has changed on a side.
  struct Change {
    std::size_t side = 0;
    const WordPiece* rows = nullptr;
  };

  Kind kind = Kind::kUnionAll;
  std::size_t sides = 0;
  std::vector<ColumnType> types;
  std::optional<KeptRows> kept;           // How many copies of each row each side has,
  std::vector<Test> tests;                // or how the sides are asked,
  std::vector<std::size_t> constants;     // which takes these constants behind the row.

  // What a change of the sides makes of the whole; false if that cannot be said in words, or fails.
  bool combine(Unit& unit, const std::vector<Change>& changes, const Constants& known, ValueTable* values, OutputRows& made) const {
    if (kind == Kind::kUnionAll) {
      made = joined(changes);
      return net_rows(made);
    }
    if (kind == Kind::kTestedUnion) return test(unit, changes, known, made);
    for (const Change& change : changes) {
      const std::size_t rows = change.rows->weights.size;
      const std::vector<Word> nothing(rows);
      std::vector<const Word*> columns;
      for (const Column& column : change.rows->columns) columns.push_back(column.words.get());
      for (std::size_t side = 0; side < sides; ++side) {
        columns.push_back(side == change.side ? change.rows->weights.words.get() : nothing.data());
      }
      if (!kept->take_in(unit, columns, rows, nullptr)) return false;
    }
    const ChangedGroups changed = kept->changed(unit, values);
    bool fine = true;
    made = rows_of_counts(changed, [&](const std::vector<std::vector<Word>>& counts, std::size_t row) {
      Word copies = 0;
      fine &= copies_of(counts, row, copies);
      return copies;
    });
    return fine;
  }

  // All rows of the sides, one side after the other.
  static OutputRows joined(const std::vector<Change>& changes) {
    if (changes.size() == 1) return rows_of_piece(*changes[0].rows);
    OutputRows made;
    for (const Change& change : changes) made.size += change.rows->weights.size;
    const auto join = [&](auto&& column_of_piece) {
      Column column = pooled_column(made.size);
      Word* out = column.words.get();
      for (const Change& change : changes) {
        const Column& from = column_of_piece(*change.rows);
        out = std::copy_n(from.words.get(), from.size, out);
      }
      return column;
    };
    for (std::size_t c = 0; c < changes[0].rows->columns.size(); ++c) {
      made.outputs.push_back({join([&](const WordPiece& piece) -> const Column& { return piece.columns[c]; }), {}, {}});
    }
    made.weights = join([](const WordPiece& piece) -> const Column& { return piece.weights; });
    return made;
  }

 private:
  // How many copies a row has, by those that the sides have; false if they are more than a word counts.
  bool copies_of(const std::vector<std::vector<Word>>& counts, std::size_t row, Word& copies) const {
    const Word left = counts[0][row], right = sides > 1 ? counts[1][row] : 0;
    switch (kind) {
      case Kind::kExcept:
        copies = left > 0 && right == 0;
        return true;
      case Kind::kExceptAll:
        copies = std::max<Word>(left - right, 0);
        return true;
      case Kind::kIntersect:
        copies = left > 0 && right > 0;
        return true;
      case Kind::kIntersectAll:
        copies = std::min(left, right);
        return true;
      default:
        break;
    }
    Word sum = 0;
    for (std::size_t side = 0; side < sides; ++side) {
      if (__builtin_add_overflow(sum, counts[side][row], &sum)) return false;
    }
    copies = sum > 0;
    return true;
  }

  // A side had a row before if it has it now, and that has not changed, or the other way round.
  bool test(Unit& unit, const std::vector<Change>& changes, const Constants& known, OutputRows& made) const {
    const OutputRows all = joined(changes);
    std::vector<const Word*> columns;
    for (const OutputRows::Output& output : all.outputs) columns.push_back(output.words.words.get());
    const std::vector<Word> nothing(all.size);
    std::vector<std::uint32_t> first;
    std::vector<Word> sums;
    std::vector<std::uint32_t> number(all.size);
    if (!added_up(columns, nothing.data(), all.size, first, sums, number.data())) return false;
    std::vector<Column> rows;
    for (const OutputRows::Output& output : all.outputs) rows.push_back(gathered(output.words, first));
    std::vector<std::vector<Word>> given;
    for (std::size_t i = 0; i < constants.size(); ++i) {
      const Word word = low_word(known[constants[i]]);
      given.emplace_back(first.size(), word == ValueTable::kUnknown ? word - 1 - static_cast<Word>(i) : word);
    }
    std::vector<const Word*> asked;
    for (const Column& row : rows) asked.push_back(row.words.get());
    for (const std::vector<Word>& word : given) asked.push_back(word.data());
    std::vector<std::vector<Word>> changed(sides, std::vector<Word>(first.size()));
    std::size_t at = 0;
    for (const Change& change : changes) {
      for (std::size_t i = 0; i < change.rows->weights.size; ++i, ++at) {
        changed[change.side][number[at]] += change.rows->weights.words.get()[i];
      }
    }
    std::vector<std::uint8_t> was(first.size()), is(first.size());
    for (std::size_t side = 0; side < sides; ++side) {
      unit.channel(tests[side].answers).clear();
      if (unit.ask(tests[side].ask, asked, first.size())) return false;
      const std::vector<Column> told = unit.channel(tests[side].answers).take();
      for (std::size_t i = 0; i < first.size(); ++i) {
        const Word now = told[0].words.get()[i];
        is[i] |= now != 0;
        was[i] |= now - changed[side][i] != 0;
      }
    }
    std::vector<std::uint32_t> flipped;
    std::vector<Word> weights;
    for (std::size_t i = 0; i < first.size(); ++i) {
      if (was[i] == is[i]) continue;
      flipped.push_back(static_cast<std::uint32_t>(i));
      weights.push_back(static_cast<Word>(is[i]) - static_cast<Word>(was[i]));
    }
    made.size = flipped.size();
    for (const Column& row : rows) made.outputs.push_back({gathered(row, flipped), {}, {}});
    made.weights = column_of(weights);
    return true;
  }
};

}  // namespace everview

// From a core's delta to the rows of a view without groups: conditions, outputs, DISTINCT, and what feeds are told.
#pragma once

#include "feed.h"
#include "kept_rows.h"
#include "net.h"
#include "rows.h"

namespace everview {

// What a core has told: words of its variables, copies, and the update that made each row.
struct CoreDelta {
  std::vector<Column> columns;
  std::size_t width = 0;

  std::size_t size() const noexcept { return columns[width].size; }
  const Column& weights() const noexcept { return columns[width]; }
  const Column& updates() const noexcept { return columns.back(); }

  // Some of its rows, which it holds together with the whole.
  CoreDelta part(std::size_t first, std::size_t rows) const {
    CoreDelta made{{}, width};
    for (const Column& column : columns) {
      made.columns.push_back({std::shared_ptr<Word>(column.words, column.words.get() + first), rows});
    }
    return made;
  }
};

// Rows that come and go. Of each output either its words, or what was computed.
struct OutputRows {
  struct Output {
    Column words;
    std::vector<Exact> values;
    std::vector<std::uint8_t> nulls;
  };

  std::size_t size = 0;
  std::vector<Output> outputs;
  Column weights, updates;
};

inline Column column_of(const std::vector<Word>& words) {
  Column made = pooled_column(words.size());
  std::copy(words.begin(), words.end(), made.words.get());
  return made;
}

inline Column gathered(const Column& from, const std::vector<std::uint32_t>& rows) {
  Column made = pooled_column(rows.size());
  for (std::size_t i = 0; i < rows.size(); ++i) made.words.get()[i] = from.words.get()[rows[i]];
  return made;
}

template <class T>
std::vector<T> gathered(const std::vector<T>& from, const std::vector<std::uint32_t>& rows) {
  std::vector<T> made;
  made.reserve(rows.size());
  for (const std::uint32_t row : rows) made.push_back(from[row]);
  return made;
}

inline OutputRows gathered(const OutputRows& from, const std::vector<std::uint32_t>& rows) {
  OutputRows made;
  made.size = rows.size();
  for (const OutputRows::Output& output : from.outputs) {
    OutputRows::Output& chosen = made.outputs.emplace_back();
    if (output.words.words != nullptr) {
      chosen.words = gathered(output.words, rows);
    } else {
      chosen.values = gathered(output.values, rows);
      chosen.nulls = gathered(output.nulls, rows);
    }
  }
  made.weights = gathered(from.weights, rows);
  if (from.updates.words != nullptr) made.updates = gathered(from.updates, rows);
  return made;
}

// Numbers as words: of long decimals ids, which whoever stores them counts.
inline Column words_of_numbers(const ColumnType& type, const std::vector<Exact>& numbers, const std::vector<std::uint8_t>& nulls,
                               ValueTable& values) {
  Column made = pooled_column(numbers.size());
  if (!type.is_wide()) {
    for (std::size_t i = 0; i < numbers.size(); ++i) {
      made.words.get()[i] = nulls[i] != 0 ? ValueTable::kNull : low_word(numbers[i]);
    }
    return made;
  }
  WaitingValues waiting;
  waiting.kind = kNumbers;
  for (std::size_t i = 0; i < numbers.size(); ++i) {
    if (nulls[i] != 0) {
      waiting.add_null();
      continue;
    }
    const StoredDecimal stored = to_stored(numbers[i], type.scale);
    waiting.add(reinterpret_cast<const char*>(stored.data()), sizeof stored);
  }
  values.encode(kNumbers, waiting.column(), made.words.get());
  return made;
}

// The words of all outputs; those that are computed fit into one.
inline void add_words(const OutputRows& rows, MadeColumns& made) {
  for (const OutputRows::Output& output : rows.outputs) {
    if (output.words.words != nullptr) {
      made.columns.push_back(output.words.words.get());
      continue;
    }
    Word* const out = made.add(rows.size);
    for (std::size_t i = 0; i < rows.size; ++i) {
      out[i] = output.nulls[i] != 0 ? ValueTable::kNull : low_word(output.values[i]);
    }
  }
}

// A constant that all rows have in a column.
struct FixedOutput {
  std::size_t output = 0, constant = 0;
};

struct RowOutput {
  std::vector<Expression> conditions;
  std::vector<Chosen> outputs;
  std::vector<FixedOutput> fixed;  // In the place of what stands in `outputs`.
  std::vector<ColumnType> types;
  std::optional<KeptRows> distinct;  // Rows are counted, and told when they come first and go last.

  // The rows that pass; false if a condition or an output has no value, or cannot be said in words.
  bool choose(const CoreDelta& delta, const Constants& constants, std::vector<Values>& stack, OutputRows& made) const {
    const std::size_t rows = delta.size();
    std::vector<Source> sources(delta.width);
    for (std::size_t i = 0; i < delta.width; ++i) sources[i].words = delta.columns[i].words.get();
    std::vector<std::uint8_t> passes;
    if (!conditions.empty()) passes.assign(rows, 1);
    for (const Expression& condition : conditions) {
      const bool fine = AtomInput::each_run(rows, [&](std::size_t first, std::size_t count) {
        if (!condition.compute(sources, constants, first, count, passes.data(), stack)) return false;
        for (std::size_t i = 0; i < count; ++i) passes[first + i] &= stack[0].nulls[i] == 0 && stack[0].values[i] != 0;
        return true;
      });
      if (!fine) return false;
    }
    const std::uint8_t* const among = conditions.empty() ? nullptr : passes.data();
    made.size = rows;
    made.weights = {delta.weights().words, rows};
    made.updates = {delta.updates().words, rows};
    for (std::size_t o = 0; o < outputs.size(); ++o) {
      OutputRows::Output& output = made.outputs.emplace_back();
      const auto constant = std::find_if(fixed.begin(), fixed.end(), [&](const FixedOutput& one) { return one.output == o; });
      if (constant != fixed.end()) {
        output.words = constant_column(low_word(constants[constant->constant]), rows);
        continue;
      }
      if (outputs[o].column != kNone) {
        output.words = delta.columns[outputs[o].column];
        continue;
      }
      output.values.resize(rows);
      output.nulls.resize(rows);
      const bool fine = AtomInput::each_run(rows, [&](std::size_t first, std::size_t count) {
        if (!outputs[o].computed.compute(sources, constants, first, count, among, stack)) return false;
        for (std::size_t i = 0; i < count; ++i) {
          const bool counts = among == nullptr || among[first + i] != 0;
          if (counts && stack[0].nulls[i] == 0 && !types[o].is_floating() && !types[o].holds(stack[0].values[i])) return false;
          output.values[first + i] = stack[0].values[i];
          output.nulls[first + i] = stack[0].nulls[i];
        }
        return true;
      });
      if (!fine) return false;
    }
    if (among != nullptr) {
      std::vector<std::uint32_t> kept;
      for (std::size_t i = 0; i < rows; ++i) {
        if (passes[i] != 0) kept.push_back(static_cast<std::uint32_t>(i));
      }
      if (kept.size() != rows) made = gathered(made, kept);
    }
    for (std::size_t i = 0; i < made.size; ++i) {
      if (made.weights.words.get()[i] == std::numeric_limits<Word>::min()) return false;  // So many copies cannot be told.
    }
    return true;
  }

  // Counts derivations; false if that fails.
  bool count(Unit& unit, const OutputRows& rows, Steps* steps) const {
    MadeColumns made;
    add_words(rows, made);
    made.columns.push_back(rows.weights.words.get());
    if (steps == nullptr) return distinct->take_in(unit, made.columns, rows.size, nullptr);
    return distinct->take_in(unit, made.columns, rows.size, nullptr, rows.updates.words.get(), *steps);
  }
};

// Rows of which there are more or fewer copies: so many as `copies` makes of a row's measures, before and now.
template <class Copies>
OutputRows rows_of_counts(const ChangedGroups& changed, Copies&& copies) {
  std::vector<std::uint32_t> kept;
  std::vector<Word> flips;
  for (std::size_t i = 0; i < changed.size; ++i) {
    const Word flip = copies(changed.now, i) - copies(changed.old, i);
    if (flip == 0) continue;
    kept.push_back(static_cast<std::uint32_t>(i));
    flips.push_back(flip);
  }
  OutputRows made;
  made.size = kept.size();
  const auto column = [&](const std::vector<Word>& words) { return column_of(gathered(words, kept)); };
  for (const std::vector<Word>& key : changed.keys) made.outputs.push_back({column(key), {}, {}});
  made.weights = column_of(flips);
  if (!changed.updates.empty()) made.updates = column(changed.updates);
  return made;
}

// Rows that appear and vanish, where the first measure counts how often a row was derived.
inline OutputRows distinct_rows(const ChangedGroups& changed) {
  return rows_of_counts(changed, [](const std::vector<std::vector<Word>>& counts, std::size_t row) {
    return static_cast<Word>(counts[0][row] > 0);
  });
}

// Equal rows as one, with their copies added up; those that are left with none are gone. False if one has more than a
// word counts.
inline bool net_rows(OutputRows& rows) {
  std::vector<std::vector<Word>> made;
  std::vector<const Word*> keys;
  for (const OutputRows::Output& output : rows.outputs) {
    if (output.words.words != nullptr) {
      keys.push_back(output.words.words.get());
      continue;
    }
    std::vector<Word> low(rows.size), high(rows.size);
    for (std::size_t i = 0; i < rows.size; ++i) {
      const bool null = output.nulls[i] != 0;
      low[i] = null ? 0 : low_word(output.values[i]);
      high[i] = null ? ValueTable::kNull : high_word(output.values[i]);
    }
    made.push_back(std::move(low));
    made.push_back(std::move(high));
  }
  for (const std::vector<Word>& column : made) keys.push_back(column.data());
  std::vector<Word> sums;
  std::vector<std::uint32_t> first;
  if (!added_up(keys, rows.weights.words.get(), rows.size, first, sums)) return false;
  std::vector<std::uint32_t> kept;
  std::vector<Word> weights;
  for (std::size_t i = 0; i < first.size(); ++i) {
    if (sums[i] == 0) continue;
    kept.push_back(first[i]);
    weights.push_back(sums[i]);
  }
  if (kept.size() != rows.size) rows = gathered(rows, kept);
  rows.weights = column_of(weights);
  return true;
}

// The constant columns that the record batches of one batch share.
class SharedColumns {
 public:
  SharedColumns(Word version, std::size_t most) : most_bytes(most), version_{version, {}} {}
  const std::size_t most_bytes;  // About what the strings of a record batch take at most.
  Column version(std::size_t rows) { return version_.of(rows); }
  Column ones(std::size_t rows) { return ones_.of(rows); }

 private:
  struct Repeated {
    Word word;
    Column column;
    Column of(std::size_t rows) {
      if (column.size < rows || column.words == nullptr) column = constant_column(word, rows + rows / 8);
      return {column.words, rows};
    }
  };
  Repeated version_;
  Repeated ones_{1, {}};
};

// Some of the rows, without copying their words.
inline OutputRows sliced(const OutputRows& from, std::size_t first, std::size_t size) {
  const auto part = [&](const Column& column) {
    return Column{std::shared_ptr<Word>(column.words, column.words.get() + first), size};
  };
  OutputRows made;
  made.size = size;
  for (const OutputRows::Output& output : from.outputs) {
    OutputRows::Output& some = made.outputs.emplace_back();
    if (output.words.words != nullptr) {
      some.words = part(output.words);
      continue;
    }
    const auto begin = static_cast<std::ptrdiff_t>(first), end = static_cast<std::ptrdiff_t>(first + size);
    some.values.assign(output.values.begin() + begin, output.values.begin() + end);
    some.nulls.assign(output.nulls.begin() + begin, output.nulls.begin() + end);
  }
  made.weights = part(from.weights);
  if (from.updates.words != nullptr) made.updates = part(from.updates);
  return made;
}

inline constexpr std::size_t kMostInBatch = std::size_t{1} << 19;  // Rows of a record batch.

// What feeds of one kind are told of a view.
struct FeedOutput {
  bool is_wanted = false;
  bool per_update = false;  // It is told which update made each row.
  std::size_t room = 0;     // Bytes that the feeds may hold.
  std::size_t bytes = 0;    // Of the record batches, about.
  std::vector<std::unique_ptr<FeedBatch>> batches;

  bool is_beyond() const noexcept { return bytes > room; }  // Nothing more is told.
  void add(std::unique_ptr<FeedBatch> batch, std::size_t more) {
    bytes += more;
    batches.push_back(std::move(batch));
    if (is_beyond()) batches.clear();
  }
};

// Tells rows, as record batches whose strings take about as much as they may.
inline void tell_rows(const std::vector<ColumnType>& types, const OutputRows& rows, SharedColumns& shared, const ValueTable* values,
                      FeedOutput& feed) {
  if (rows.size == 0 || feed.is_beyond()) return;
  std::size_t bytes = 0;
  for (std::size_t o = 0; o < rows.outputs.size(); ++o) {
    const ColumnType& type = types[o];
    if (!type.is_wide() || type.kind == ColumnType::Kind::kDecimal) continue;
    bytes += values->nbytes_of(rows.outputs[o].words.words.get(), rows.size);
  }
  if (rows.size > 1 && (bytes > shared.most_bytes || rows.size > kMostInBatch)) {
    const std::size_t half = rows.size / 2;
    tell_rows(types, sliced(rows, 0, half), shared, values, feed);
    tell_rows(types, sliced(rows, half, rows.size - half), shared, values, feed);
    return;
  }
  std::vector<FeedColumn> columns;
  for (std::size_t o = 0; o < rows.outputs.size(); ++o) {
    const OutputRows::Output& output = rows.outputs[o];
    if (output.words.words != nullptr) {
      columns.push_back(column_of_typed_words(types[o], {output.words.words, rows.size}, *values));
      continue;
    }
    columns.push_back(column_of_numbers(types[o], rows.size, [&](std::size_t i, Exact& number) {
      number = output.values[i];
      return output.nulls[i] == 0;
    }));
  }
  const ChangeColumns changes = change_columns(rows.weights.words.get(), rows.size);
  columns.push_back(column_of_names(changes.kinds, rows.size));
  columns.push_back(column_of_words(shared.version(rows.size)));
  columns.push_back(column_of_words(changes.counts ? *changes.counts : shared.ones(rows.size)));
  if (feed.per_update) columns.push_back(column_of_words(rows.updates));
  bytes += rows.size * (8 * columns.size() + 2);
  feed.add(std::make_unique<FeedBatch>(std::move(columns), rows.size), bytes);
}

}  // namespace everview

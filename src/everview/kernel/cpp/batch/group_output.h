// From a core's delta to groups that have changed, and from these to the rows of a feed.
#pragma once

#include <cmath>


#include "listed_values.h"

namespace everview {

// How groups become rows: values of aggregates from their sums, HAVING, and outputs.
struct Finish {
  struct Aggregate {
    enum class Kind : std::uint8_t { kCount, kSum, kDecimalAverage, kDoubleAverage, kListed };
    Kind kind = Kind::kCount;
    std::size_t first = 0, words = 1;  // Of its sum, or of what it counts, among the measures; kListed: among those.
    std::size_t present = 0, present_words = 1;
    Limit limit;
    Exact factor = 1;  // kDecimalAverage: what the sum is multiplied by to have the result's scale.
  };

  bool over_everything = false;  // One group, which is always there.
  std::vector<Aggregate> aggregates;
  std::optional<Expression> having;
  std::vector<Chosen> outputs;  // Keys, or behind them listed values, as they are; or computed of keys and aggregates.
  std::vector<ColumnType> types;
};

// Rows of groups before a batch and then after it, side by side.
struct FinishedGroups {
  std::vector<std::uint8_t> there;
  std::vector<std::vector<Exact>> values;  // Of computed outputs; empty for keys.
  std::vector<std::vector<std::uint8_t>> nulls;
};

inline bool finish_groups(const Finish& finish, const ChangedGroups& groups, std::size_t count_words,
                          const Constants& constants, std::vector<Values>& stack, FinishedGroups& made) {
  const std::size_t n = groups.size, rows = 2 * n;
  const auto words_at = [&](std::size_t row, std::size_t first, std::size_t size, Word* out) {
    const auto& from = row < n ? groups.old : groups.now;
    for (std::size_t i = 0; i < size; ++i) out[i] = from[first + i][row < n ? row : row - n];
  };
  const auto is_above = [&](std::size_t row, std::size_t first, std::size_t size) {
    Word words[kMostWords];
    words_at(row, first, size, words);
    return words[size - 1] >= 0 && !is_zero(words, size);
  };
  made.there.assign(rows, 1);
  for (std::size_t i = 0; i < rows && !finish.over_everything; ++i) made.there[i] = is_above(i, 0, count_words);
  std::vector<std::vector<Word>> keys;
  std::vector<std::vector<Exact>> values(finish.aggregates.size());
  std::vector<std::vector<std::uint8_t>> nulls(finish.aggregates.size());
  std::vector<Source> sources;
  for (const std::vector<Word>& key : groups.keys) {
    std::vector<Word>& both = keys.emplace_back(key);
    both.insert(both.end(), key.begin(), key.end());
  }
  for (const std::vector<Word>& key : keys) sources.push_back({key.data(), nullptr, nullptr});
  for (std::size_t a = 0; a < finish.aggregates.size(); ++a) {
    const Finish::Aggregate& aggregate = finish.aggregates[a];
    values[a].assign(rows, 0);
    nulls[a].assign(rows, 0);
    for (std::size_t i = 0; i < rows; ++i) {
      if (made.there[i] == 0) continue;
      Word words[kMostWords];
      Exact& value = values[a][i];
      if (aggregate.kind == Finish::Aggregate::Kind::kListed) {
        value = groups.listed_at(aggregate.first, i);
        nulls[a][i] = value == ValueTable::kNull;
        continue;
      }
      words_at(i, aggregate.first, aggregate.words, words);
      if (!narrow(words, aggregate.words, value)) return false;
      if (aggregate.kind != Finish::Aggregate::Kind::kCount && !is_above(i, aggregate.present, aggregate.present_words)) {
        nulls[a][i] = 1;
        continue;
      }
      if (aggregate.kind == Finish::Aggregate::Kind::kDecimalAverage ||
          aggregate.kind == Finish::Aggregate::Kind::kDoubleAverage) {
        Exact count = 0;
        words_at(i, aggregate.present, aggregate.present_words, words);
        if (!narrow(words, aggregate.present_words, count)) return false;
        if (aggregate.kind == Finish::Aggregate::Kind::kDoubleAverage) {
          constexpr Exact kExact = Exact{1} << 53;
          if (value > kExact || value < -kExact || count > kExact) return false;
          value = word_of_double(static_cast<double>(value) / static_cast<double>(count));
          continue;
        }
        Exact scaled = 0;
        if (__builtin_mul_overflow(value < 0 ? -value : value, 2 * aggregate.factor, &scaled)) return false;
        if (__builtin_add_overflow(scaled, count, &scaled) || count > (Exact{1} << 100)) return false;
        scaled /= 2 * count;
        value = value < 0 ? -scaled : scaled;
      }
      if (!aggregate.limit.holds(value)) return false;
    }
    sources.push_back({nullptr, values[a].data(), nulls[a].data()});
  }
  const auto compute = [&](const Expression& expression, auto&& use) {
    return AtomInput::each_run(rows, [&](std::size_t first, std::size_t count) {
      if (!expression.compute(sources, constants, first, count, made.there.data(), stack)) return false;
      for (std::size_t i = 0; i < count; ++i) use(first + i, stack[0].values[i], stack[0].nulls[i]);
      return true;
    });
  };
  if (finish.having) {
    const bool fine = compute(*finish.having, [&](std::size_t i, Exact value, std::uint8_t null) {
      made.there[i] &= null == 0 && value != 0;
    });
    if (!fine) return false;
  }
  made.values.resize(finish.outputs.size());
  made.nulls.resize(finish.outputs.size());
  for (std::size_t o = 0; o < finish.outputs.size(); ++o) {
    if (finish.outputs[o].column != kNone) continue;
    made.values[o].resize(rows);
    made.nulls[o].resize(rows);
    const bool fine = compute(finish.outputs[o].computed, [&](std::size_t i, Exact value, std::uint8_t null) {
      made.values[o][i] = value;
      made.nulls[o][i] = null;
    });
    if (!fine) return false;
    const ColumnType& type = finish.types[o];
    const bool is_float = type.kind == ColumnType::Kind::kDouble || type.kind == ColumnType::Kind::kFloat;
    for (std::size_t i = 0; i < rows; ++i) {
      if (made.there[i] != 0 && made.nulls[o][i] == 0 && !is_float && !type.holds(made.values[o][i])) return false;
    }
  }
  return true;
}

// The rows of a feed: which of the rows before and after, and what happened to each. Old rows come first, each with the
// new one of its group; or all of them in order.
struct FeedOrder {
  std::vector<std::uint32_t> rows;
  std::vector<Happened> happened;
};

inline FeedOrder changed_rows_of(const Finish& finish, const ChangedGroups& groups, const FinishedGroups& made, bool in_order) {
  const std::size_t n = groups.size, keys = groups.keys.size();
  FeedOrder order;
  std::vector<std::uint32_t> come;
  for (std::size_t i = 0; i < n; ++i) {
    bool was = made.there[i] != 0, is = made.there[n + i] != 0;
    if (was && is) {
      bool same = true;
      for (std::size_t o = 0; o < made.values.size() && same; ++o) {
        const std::uint32_t column = finish.outputs[o].column;
        if (column != kNone) {
          same = column < keys || groups.listed_at(column - keys, i) == groups.listed_at(column - keys, n + i);
          continue;
        }
        const bool null = made.nulls[o][i] != 0;
        same = null == (made.nulls[o][n + i] != 0) && (null || made.values[o][i] == made.values[o][n + i]);
      }
      if (same) continue;
      order.rows.push_back(static_cast<std::uint32_t>(i));
      order.rows.push_back(static_cast<std::uint32_t>(n + i));
      order.happened.push_back(Happened::kBefore);
      order.happened.push_back(Happened::kAfter);
      continue;
    }
    if (was) {
      order.rows.push_back(static_cast<std::uint32_t>(i));
      order.happened.push_back(Happened::kGoes);
    }
    if (!is) continue;
    if (!in_order) {
      come.push_back(static_cast<std::uint32_t>(n + i));
      continue;
    }
    order.rows.push_back(static_cast<std::uint32_t>(n + i));
    order.happened.push_back(Happened::kComes);
  }
  order.rows.insert(order.rows.end(), come.begin(), come.end());
  order.happened.resize(order.rows.size(), Happened::kComes);
  return order;
}

inline std::unique_ptr<FeedBatch> feed_of_groups(const Finish& finish, const ChangedGroups& groups,
                                                 const FinishedGroups& made, const FeedOrder& order,
                                                 SharedColumns& shared, const ValueTable* values) {
  const std::size_t rows = order.rows.size(), n = groups.size;
  std::vector<FeedColumn> columns;
  for (std::size_t o = 0; o < finish.outputs.size(); ++o) {
    const ColumnType& type = finish.types[o];
    const std::uint32_t key = finish.outputs[o].column;
    if (key == kNone) {
      columns.push_back(column_of_numbers(type, rows, [&](std::size_t i, Exact& number) {
        number = made.values[o][order.rows[i]];
        return made.nulls[o][order.rows[i]] == 0;
      }));
      continue;
    }
    const std::size_t keys = groups.keys.size();
    const auto at = [&](std::size_t i) {
      const std::uint32_t row = order.rows[i];
      return key < keys ? groups.keys[key][row < n ? row : row - n] : groups.listed_at(key - keys, row);
    };
    if (!type.is_wide()) {
      columns.push_back(column_of_numbers(type, rows, [&](std::size_t i, Exact& number) {
        number = at(i);
        return at(i) != ValueTable::kNull;
      }));
      continue;
    }
    std::vector<Word> ids(rows);
    for (std::size_t i = 0; i < rows; ++i) ids[i] = at(i);
    columns.push_back(column_of_ids(type, ids.data(), rows, *values));
  }
  columns.push_back(column_of_kinds(order.happened));
  columns.push_back(column_of_words(shared.version(rows)));
  columns.push_back(column_of_words(shared.ones(rows)));
  if (!groups.updates.empty()) {
    Column updates = pooled_column(rows);
    for (std::size_t i = 0; i < rows; ++i) {
      updates.words.get()[i] = groups.updates[order.rows[i] < n ? order.rows[i] : order.rows[i] - n];
    }
    columns.push_back(column_of_words(updates));
  }
  return std::make_unique<FeedBatch>(std::move(columns), rows);
}

inline Column weights_of(const FeedOrder& order) {
  Column made = pooled_column(order.rows.size());
  for (std::size_t i = 0; i < order.rows.size(); ++i) {
    made.words.get()[i] = order.happened[i] == Happened::kComes || order.happened[i] == Happened::kAfter ? 1 : -1;
  }
  return made;
}

// The same rows as words.
inline std::vector<Column> words_of_groups(const Finish& finish, const ChangedGroups& groups, const FinishedGroups& made,
                                           const FeedOrder& order, ValueTable& values) {
  const std::size_t n = groups.size, keys = groups.keys.size();
  std::vector<Column> columns;
  for (std::size_t o = 0; o < finish.outputs.size(); ++o) {
    const std::uint32_t key = finish.outputs[o].column;
    if (key == kNone) {
      columns.push_back(words_of_numbers(finish.types[o], gathered(made.values[o], order.rows), gathered(made.nulls[o], order.rows), values));
      continue;
    }
    Column& words = columns.emplace_back(pooled_column(order.rows.size()));
    for (std::size_t i = 0; i < order.rows.size(); ++i) {
      const std::uint32_t row = order.rows[i];
      words.words.get()[i] = key < keys ? groups.keys[key][row < n ? row : row - n] : groups.listed_at(key - keys, row);
    }
  }
  return columns;
}

// What follows a core whose rows are put into groups.
struct GroupOutput {
  struct Slot {
    std::uint32_t inside = kNone;  // The first of its columns in the core's delta; or it is
    Summand posted;                // summed up here.
    std::size_t words = 1;
  };

  std::vector<Expression> conditions;
  std::vector<Chosen> keys;
  std::vector<Slot> slots;
  std::size_t count_words = 1;
  KeptRows kept;
  std::vector<ListedValues> listed;  // Their values are numbered in this order,
  std::vector<DistinctValues> distinct;  // then come these,
  std::vector<ReadValues> read;          // and these.
  std::vector<HandedValues> handed;      // Where there are such, somebody else finishes the groups.
  std::optional<Finish> finish;

  // Adds a core's delta to the groups, and if `steps` are wanted what each update changes; false if that cannot be said
  // in words.
  bool take_in(Unit& unit, const CoreDelta& told, const Constants& constants, std::vector<Values>& stack,
               Steps* steps) const {
    const std::vector<Column>& delta = told.columns;
    const std::size_t width = told.width, rows = told.size();
    std::vector<Source> sources(width);
    for (std::size_t i = 0; i < width; ++i) sources[i].words = delta[i].words.get();
    std::vector<std::uint8_t> passes(rows, 1);
    for (const Expression& condition : conditions) {
      const bool fine = AtomInput::each_run(rows, [&](std::size_t first, std::size_t count) {
        if (!condition.compute(sources, constants, first, count, passes.data(), stack)) return false;
        for (std::size_t i = 0; i < count; ++i) passes[first + i] &= stack[0].nulls[i] == 0 && stack[0].values[i] != 0;
        return true;
      });
      if (!fine) return false;
    }
    MadeColumns made;
    for (const Chosen& key : keys) {
      if (key.column != kNone) {
        made.columns.push_back(delta[key.column].words.get());
        continue;
      }
      Word* const out = made.add(rows);
      const bool fine = AtomInput::each_run(rows, [&](std::size_t first, std::size_t count) {
        return key.computed.compute(sources, constants, first, count, passes.data(), stack) &&
               AtomInput::to_words(stack[0], count, out + first);
      });
      if (!fine) return false;
    }
    for (std::size_t i = 0; i < count_words; ++i) made.columns.push_back(delta[width + i].words.get());
    std::size_t further = kept.measures - count_words;
    for (const Slot& slot : slots) {
      further -= slot.words;
      if (slot.inside != kNone) {
        for (std::size_t i = 0; i < slot.words; ++i) made.columns.push_back(delta[slot.inside + i].words.get());
        continue;
      }
      std::vector<Word*> out;
      for (std::size_t i = 0; i < slot.words; ++i) out.push_back(made.add(rows));
      const bool fine = AtomInput::each_run(rows, [&](std::size_t first, std::size_t count) {
        if (!slot.posted.value.compute(sources, constants, first, count, passes.data(), stack)) return false;
        Word words[kMostWords] = {}, copies[kMostWords];
        for (std::size_t i = 0; i < count; ++i) {
          for (std::size_t w = 0; w < count_words; ++w) copies[w] = delta[width + w].words.get()[first + i];
          const bool absent = passes[first + i] == 0 || stack[0].nulls[i] != 0;
          if (!change_of_sum(slot.posted.kind, absent, stack[0].values[i], copies, count_words, slot.words, words)) {
            return false;
          }
          for (std::size_t w = 0; w < slot.words; ++w) out[w][first + i] = words[w];
        }
        return true;
      });
      if (!fine) return false;
    }
    for (; further != 0; --further) made.add(rows);  // What is no sum stays as it is.
    if (steps == nullptr) return kept.take_in(unit, made.columns, rows, passes.data());
    return kept.take_in(unit, made.columns, rows, passes.data(), told.updates().words.get(), *steps);
  }
};

}  // namespace everview

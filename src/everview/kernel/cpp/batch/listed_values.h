// Values of groups that are no sums of their core: what MIN, MAX and COUNT(DISTINCT …) keep, in a batch.
#pragma once

#include "row_output.h"

namespace everview {

// MIN and MAX along a core of their own: each group's values in order, as `everview/programs/min_max.py` keeps them.
struct ListedValues {
  std::size_t core = 0;  // Whose rows give the groups' words and the value.
  RowOutput rows;
  std::size_t change = 0, read = 0;  // Procedures,
  std::size_t answers = 0;           // the channel of what is read,
  std::optional<std::size_t> uses;   // and that of wide values that come into a group or leave it.
  bool is_floating = false;

  // The groups' lowest or highest values; NULL for those without any.
  std::vector<Word> results(Unit& unit, const ChangedGroups& groups) const {
    std::vector<const Word*> columns;
    for (const std::vector<Word>& key : groups.keys) columns.push_back(key.data());
    const std::vector<Word> once(columns.empty() ? groups.size : 0);
    if (columns.empty()) columns.push_back(once.data());
    unit.channel(answers).clear();
    if (unit.ask(read, columns, groups.size)) throw std::bad_alloc();
    const std::vector<Column> given = unit.channel(answers).take();
    std::vector<Word> found(groups.size, ValueTable::kNull);
    for (std::size_t i = 0; i < groups.size; ++i) {
      if (given[0].words.get()[i] == 0) continue;
      const Word value = given[1].words.get()[i];
      found[i] = is_floating ? turned(value) : value;
    }
    return found;
  }

  // Has the values of a core's delta come into their groups, or leave them; false if that cannot be said in words.
  bool take_in(Unit& unit, const CoreDelta& delta, const Constants& constants, std::vector<Values>& stack,
               ValueTable* values) const {
    OutputRows chosen;
    if (!rows.choose(delta, constants, stack, chosen)) return false;
    MadeColumns made;
    add_words(chosen, made);
    const Word* const given = made.columns.back();
    std::vector<std::uint8_t> is_there(chosen.size);
    for (std::size_t i = 0; i < chosen.size; ++i) is_there[i] = given[i] != ValueTable::kNull;
    if (is_floating) {
      made.columns.pop_back();
      Word* const out = made.add(chosen.size);
      for (std::size_t i = 0; i < chosen.size; ++i) out[i] = turned(given[i]);
    }
    made.columns.push_back(chosen.weights.words.get());
    if (unit.apply(change, made.columns, chosen.size, 0, kAll, is_there.data()).failure) return false;
    if (!uses || unit.channel(*uses).size() == 0) return true;
    const std::vector<Column> used = unit.channel(*uses).take();
    values->count(used[0].words.get(), used[1].words.get(), used[0].size);
    return true;
  }
};

// COUNT(DISTINCT …) along a core of its own: values with their derivations, and how many there are in each group as one
// of the group's measures.
struct DistinctValues {
  std::size_t core = 0;
  RowOutput rows;
  KeptRows values;
  std::size_t measure = 0;

  // Has the values of a core's delta come into their groups, or leave them; false if that cannot be said in words.
  bool take_in(Unit& unit, const CoreDelta& delta, const KeptRows& groups, const Constants& constants,
               std::vector<Values>& stack, ValueTable* table) const {
    OutputRows chosen;
    if (!rows.choose(delta, constants, stack, chosen)) return false;
    MadeColumns made;
    add_words(chosen, made);
    made.columns.push_back(chosen.weights.words.get());
    if (!values.take_in(unit, made.columns, chosen.size, nullptr)) return false;
    const OutputRows flips = distinct_rows(values.changed(unit, table));
    MadeColumns changes;
    add_words(flips, changes);
    const Word* const value = changes.columns.back();
    changes.columns.pop_back();
    for (std::size_t m = 0; m < groups.measures; ++m) {
      Word* const change = changes.add(flips.size);
      for (std::size_t i = 0; i < flips.size && m == measure; ++i) {
        change[i] = value[i] == ValueTable::kNull ? 0 : flips.weights.words.get()[i];
      }
    }
    return groups.take_in(unit, changes.columns, flips.size, nullptr);
  }
};

// An aggregate whose state is kept elsewhere, along a core of its own: it is handed which values come and go.
struct HandedValues {
  std::size_t core = 0;  // Whose rows give the groups' words and the value.
  RowOutput rows;
};

// MIN and MAX that the core of the groups keeps in order itself: read off it for any groups, at any time. What was read
// last is a measure of the group, of two words: a number that counts up from NULL, which is 0.
struct ReadValues {
  std::size_t ask = 0;      // The function,
  std::size_t answers = 0;  // its channel,
  std::vector<std::uint32_t> keys;  // and the keys that it is asked by.
  std::size_t measure = 0;          // The first of the words.
  bool is_floating = false;

  static Word in_order(Word measure) noexcept { return measure ^ ValueTable::kNull; }

  // Has some groups, with the measures that they have now, keep what there is to be read now; false if that fails.
  bool read(Unit& unit, const ChangedGroups& groups, const KeptRows& kept, std::size_t count_words) const {
    const std::vector<Word> once(keys.empty() ? groups.size : 0);
    std::vector<const Word*> given;
    for (const std::uint32_t key : keys) given.push_back(groups.keys[key].data());
    if (given.empty()) given.push_back(once.data());
    unit.channel(answers).clear();
    if (unit.ask(ask, given, groups.size)) return false;
    const std::vector<Column> told = unit.channel(answers).take();
    const std::vector<Word> nothing(groups.size);
    std::vector<Word> low(groups.size), high(groups.size);
    for (std::size_t i = 0; i < groups.size; ++i) {
      bool any = false;
      for (std::size_t w = 0; w < count_words; ++w) any |= groups.now[w][i] != 0;
      const bool found = any && groups.now[count_words - 1][i] >= 0 && told[0].words.get()[i] != 0;
      const Word was = in_order(groups.now[measure][i]), is = found ? told[1].words.get()[i] : ValueTable::kNull;
      low[i] = low_word(Exact{is} - was);
      high[i] = is < was ? -1 : 0;
    }
    std::vector<const Word*> columns;
    for (const std::vector<Word>& key : groups.keys) columns.push_back(key.data());
    for (std::size_t m = 0; m < kept.measures; ++m) {
      columns.push_back(m == measure ? low.data() : m == measure + 1 ? high.data() : nothing.data());
    }
    return kept.take_in(unit, columns, groups.size, nullptr);
  }

  // The values' words, by the measures.
  std::vector<Word> values(const std::vector<Word>& measures) const {
    std::vector<Word> made;
    made.reserve(measures.size());
    for (const Word word : measures) made.push_back(is_floating ? turned(in_order(word)) : in_order(word));
    return made;
  }
};

}  // namespace everview

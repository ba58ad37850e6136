// MIN and MAX in a batch: each group's values in order, as `everview/programs/min_max.py` keeps them.
#pragma once

#include "row_output.h"

namespace everview {

struct ListedValues {
  std::size_t core = 0;  // Whose rows give the groups' words and the value.
  RowOutput rows;
  std::size_t change = 0, read = 0;  // Procedures,
  std::size_t answers = 0;           // the channel of what is read,
  std::optional<std::size_t> uses;   // and that of wide values that come into a group or leave it.
  bool is_floating = false;

  // Doubles as words that compare as they do; its own inverse. NULL stays the least of all.
  static Word turned(Word word) noexcept {
    return word < 0 && word != ValueTable::kNull ? word ^ std::numeric_limits<Word>::max() : word;
  }

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

}  // namespace everview

// Rows kept with measures, as `everview/programs/counts.py` keeps them, and what a batch changes in them.
#pragma once

#include "../run/machine.h"
#include "atom_input.h"

namespace everview {

inline constexpr std::uint32_t kNone = std::numeric_limits<std::uint32_t>::max();
inline constexpr std::size_t kAll = std::numeric_limits<std::size_t>::max();

// A column of an output: one that there is, or one that is computed.
struct Chosen {
  std::uint32_t column = kNone;
  Expression computed;
};

// The rows, or groups, that a batch has changed, with what they had before it and what they have now, in words. Where
// single updates are told apart: what each of them changed, update by update.
struct ChangedGroups {
  std::size_t size = 0;
  std::vector<std::vector<Word>> keys, old, now;
  std::vector<Word> updates;
  std::vector<std::vector<Word>> listed_old, listed_now;  // Values of aggregates that are kept in order.

  // Such a value of a row before or, behind all of these, after the batch.
  Word listed_at(std::size_t number, std::size_t row) const noexcept {
    return row < size ? listed_old[number][row] : listed_now[number][row - size];
  }
};

// What single updates change in kept rows: before the first change that an update makes in a row, and after the last.
class Steps {
 public:
  Steps(std::size_t keys, std::size_t measures) : slots_(64, kNoRow) {
    made_.keys.resize(keys);
    made_.old.resize(measures);
    made_.now.resize(measures);
  }

  // The next change; those of one update come one after the other.
  template <class KeyAt, class OldAt, class NowAt>
  void add(Word update, KeyAt&& key, OldAt&& old, NowAt&& now) {
    if (made_.size == 0 || made_.updates.back() != update) first_ = made_.size;
    const std::size_t at = find(key);
    if (at == made_.size) {
      for (std::size_t k = 0; k < made_.keys.size(); ++k) made_.keys[k].push_back(key(k));
      for (std::size_t m = 0; m < made_.old.size(); ++m) {
        made_.old[m].push_back(old(m));
        made_.now[m].push_back(now(m));
      }
      made_.updates.push_back(update);
      ++made_.size;
      return;
    }
    for (std::size_t m = 0; m < made_.now.size(); ++m) made_.now[m][at] = now(m);
  }

  ChangedGroups take() { return std::move(made_); }

 private:
  // The update's own change of a row; the end if there is none. A slot of an earlier update counts as empty.
  template <class KeyAt>
  std::size_t find(KeyAt&& key) {
    if (2 * (made_.size - first_ + 1) > slots_.size()) grow();
    Hasher hasher;
    for (std::size_t k = 0; k < made_.keys.size(); ++k) hasher.add(key(k));
    const std::size_t mask = slots_.size() - 1;
    for (std::size_t at = hasher.value() & mask;; at = (at + 1) & mask) {
      const Row found = slots_[at];
      if (found == kNoRow || found < first_) {
        slots_[at] = static_cast<Row>(made_.size);
        return made_.size;
      }
      bool same = true;
      for (std::size_t k = 0; k < made_.keys.size() && same; ++k) same = made_.keys[k][found] == key(k);
      if (same) return found;
    }
  }

  void grow() {
    slots_.assign(2 * slots_.size(), kNoRow);
    const std::size_t mask = slots_.size() - 1;
    for (std::size_t i = first_; i < made_.size; ++i) {
      Hasher hasher;
      for (const std::vector<Word>& column : made_.keys) hasher.add(column[i]);
      std::size_t at = hasher.value() & mask;
      while (slots_[at] != kNoRow) at = (at + 1) & mask;
      slots_[at] = static_cast<Row>(i);
    }
  }

  ChangedGroups made_;
  std::size_t first_ = 0;  // Where the update's own changes begin.
  std::vector<Row> slots_;
};

// A fold's table and procedures.
struct KeptRows {
  std::size_t keys = 0;
  std::size_t measures = 1;  // Words of all of them.
  std::size_t add = 0, trace = 0, settle = 0, drop = 0;  // Procedures.
  std::size_t traced = 0;  // The channel.
  std::size_t table = 0;
  std::vector<std::uint32_t> wide;

  // Adds rows, which are columns of keys and of the measures' changes; false if that fails.
  bool take_in(Unit& unit, const std::vector<const Word*>& columns, std::size_t rows, const std::uint8_t* wanted) const {
    return !unit.apply(add, columns, rows, 0, kAll, wanted).failure;
  }

  // The same, and what each update has changed; `updates` has a number for each of the rows.
  bool take_in(Unit& unit, const std::vector<const Word*>& columns, std::size_t rows, const std::uint8_t* wanted,
               const Word* updates, Steps& steps) const {
    unit.channel(traced).clear();
    if (unit.apply(trace, columns, rows, 0, kAll, wanted).failure) return false;
    const std::vector<Column> told = unit.channel(traced).take();
    std::size_t at = 0;
    for (std::size_t i = 0; i < rows; ++i) {
      if (wanted != nullptr && wanted[i] == 0) continue;
      steps.add(
          updates[i], [&](std::size_t k) { return columns[k][i]; },
          [&](std::size_t m) { return told[m].words.get()[at]; },
          [&](std::size_t m) { return told[measures + m].words.get()[at]; });
      ++at;
    }
    return true;
  }

  // The rows that have changed since they were settled.
  ChangedGroups touched(Unit& unit) const {
    const Table& rows = unit.program().tables[table];
    const std::span<const Row> touched = rows.group(0, nullptr, Levels{1, 1});
    ChangedGroups made;
    made.size = touched.size();
    made.keys.assign(keys, std::vector<Word>(made.size));
    made.old.assign(measures, std::vector<Word>(made.size));
    made.now.assign(measures, std::vector<Word>(made.size));
    for (std::size_t i = 0; i < made.size; ++i) {
      const RowRef row = rows.words(touched[i]);
      for (std::size_t k = 0; k < keys; ++k) made.keys[k][i] = row[k];
      for (std::size_t m = 0; m < measures; ++m) {
        made.now[m][i] = row[keys + m];
        made.old[m][i] = row[keys + measures + m];
      }
    }
    return made;
  }

  // The same, and settles them; wide values of keys are counted.
  ChangedGroups changed(Unit& unit, ValueTable* values) const {
    ChangedGroups made = touched(unit);
    std::vector<Word> came(made.size);
    std::vector<std::uint8_t> gone(made.size);
    for (std::size_t i = 0; i < made.size; ++i) {
      bool was = false, is = false;
      for (std::size_t m = 0; m < measures; ++m) {
        is |= made.now[m][i] != 0;
        was |= made.old[m][i] != 0;
      }
      came[i] = static_cast<Word>(is) - static_cast<Word>(was);
      gone[i] = !is;
    }
    for (const std::uint32_t key : wide) values->count(made.keys[key].data(), came.data(), made.size);
    const Word once = 0;
    if (made.size == 0) return made;
    bool fine = !unit.apply(settle, {&once}, 1, 0, kAll).failure;
    if (fine && keys != 0) {
      std::vector<const Word*> columns;
      for (const std::vector<Word>& key : made.keys) columns.push_back(key.data());
      fine = !unit.apply(drop, columns, made.size, 0, kAll, gone.data()).failure;
    }
    if (!fine) throw std::bad_alloc();
    return made;
  }
};

}  // namespace everview

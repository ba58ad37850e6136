// A view's part in a batch: its cores take in what its relations have changed, and its output tells what that makes.
#pragma once

#include "../run/shared.h"
#include "group_output.h"
#include "set_operation.h"

namespace everview {

// How one of a view's cores takes a relation's rows in.
struct BatchEntry {
  std::size_t core = 0;
  std::size_t state_only = 0, with_deltas = 0;
  std::vector<AtomInput> inputs;
  std::vector<std::uint32_t> wide;  // Columns of wide values that are counted here: those of what is no table.
};

struct BatchCore {
  std::size_t delta = 0;               // The channel,
  std::size_t width = 0;               // how many of its columns are no measures,
  std::optional<std::size_t> beyond;   // the table that has a row once a sum may be beyond its type,
  std::vector<std::uint32_t> logs;     // and the channels on which it is noted which stored rows change.
};

struct BatchView {
  UnitHandle unit;
  Constants constants;
  std::vector<std::vector<BatchEntry>> entries;  // For each relation.
  std::vector<BatchCore> cores;
  std::optional<RowOutput> rows;  // Either these,
  std::optional<GroupOutput> group;  // or groups,
  std::optional<SetOperation> set;   // or no core, but what other views of the unit change.

  // How many columns its rows have.
  std::size_t width() const noexcept {
    if (set) return set->types.size();
    return rows ? rows->outputs.size() : group->finish ? group->finish->outputs.size() : 0;
  }
};

// What a relation's rows change, as views take it in.
struct BatchChanges {
  std::vector<const Word*> columns;
  const Word* weights = nullptr;
  std::size_t rows = 0;
  Word start = 0;  // The first one's number among the updates of the batch.
  const WordPiece* made = nullptr;  // Where a view has made them.
};

// One view on its way through one batch.
class ViewOfBatch {
 public:
  BatchView* view = nullptr;
  bool with_deltas = false;  // What changes is followed.
  bool keeps_log = false;
  bool identifies = false;  // A row says which rows it is made of, so that it changes once if they do.
  bool gives_words = false;  // Others read it.
  FeedOutput net, updates;   // What its feeds are told.
  std::vector<std::pair<std::size_t, std::size_t>> readers;  // Later views that read this one, and by which entries.
  std::vector<std::pair<std::size_t, std::size_t>> inputs;  // Which changes, and by which entries, or as which side.

  // What it gives.
  bool is_reached = false;
  std::size_t changed_rows = 0;
  ChangedGroups groups;  // Those that somebody else is to finish,
  std::vector<WordPiece> handed;  // with what has changed of the values of each aggregate that is kept elsewhere.
  std::vector<WordPiece> words;

  // False if something cannot be said in words, or goes wrong. `is_net` says that no join has changed twice, `came` how
  // many rows the batch has.
  bool run(const std::vector<BatchChanges>& changes, bool is_net, std::size_t came, SharedColumns& shared, ValueTable* values,
           std::vector<Values>& stack) {
    values_ = values;
    shared_ = &shared;
    stack_ = &stack;
    if (view->set) return combine(changes, came);
    is_added_up_ = view->rows && net.is_wanted && !(is_net && identifies);
    if (updates.is_wanted && view->group) steps_.emplace(view->group->kept.keys, view->group->kept.measures);
    if (updates.is_wanted && view->rows && view->rows->distinct) steps_.emplace(view->rows->distinct->keys, 1);
    for (const auto& [number, entries] : inputs) {
      for (const BatchEntry& entry : view->entries[entries]) {
        if (!take_in(entry, changes[number])) return false;
      }
    }
    return !is_reached || conclude();
  }

 private:
  static constexpr std::size_t kTogether = 65'536;  // Rows whose inputs are made together.
  static constexpr std::size_t kSlice = 131'072;    // Rows that are pending before they are taken on.
  static constexpr std::size_t kFew = 16'384;       // Rows whose values are counted together.
  static constexpr std::size_t kManyCopies = 16;    // So many times the rows that came are added up before others read them.

  // What the sides of a set operation have changed.
  bool combine(const std::vector<BatchChanges>& changes, std::size_t came) {
    std::vector<SetOperation::Change> of_sides;
    std::size_t rows = 0;
    for (const auto& [number, side] : inputs) {
      of_sides.push_back({side, changes[number].made});
      rows += changes[number].rows;
    }
    is_reached = !of_sides.empty();
    if (!is_reached) return true;
    if (view->set->kind == SetOperation::Kind::kUnionAll && !net.is_wanted && rows / kManyCopies <= came) {
      changed_rows = rows;
      for (const SetOperation::Change& change : of_sides) {
        if (gives_words) words.push_back(*change.rows);
      }
      return true;
    }
    OutputRows made;
    if (!view->set->combine(view->unit->held(), of_sides, view->constants, values_, made)) return false;
    changed_rows = made.size;
    if (gives_words && made.size != 0) words.push_back(words_of(view->set->types, made));
    if (net.is_wanted) tell_rows(view->set->types, made, *shared_, values_, net);
    return true;
  }

  bool take_in(const BatchEntry& entry, const BatchChanges& changes) {
    for (const std::uint32_t column : entry.wide) values_->count(changes.columns[column], changes.weights, changes.rows);
    for (std::size_t first = 0; first < changes.rows; first += kTogether) {
      const std::size_t rows = std::min(kTogether, changes.rows - first);
      std::vector<const Word*> stored;
      for (const Word* const column : changes.columns) stored.push_back(column + first);
      MadeColumns made;
      made.wanted.assign(rows, 0);
      for (const AtomInput& input : entry.inputs) {
        if (!input.make(stored, changes.weights + first, rows, view->constants, *stack_, made)) return false;
      }
      if (!made.any) continue;
      is_reached = true;
      made.columns.push_back(changes.weights + first);
      if (!apply(entry, std::move(made), rows, changes.start + static_cast<Word>(first))) return false;
    }
    return true;
  }

  bool apply(const BatchEntry& entry, MadeColumns made, std::size_t rows, Word start) {
    const BatchCore& core = view->cores[entry.core];
    Unit& unit = view->unit->held();
    const std::size_t procedure = with_deltas ? entry.with_deltas : entry.state_only;
    const std::size_t most = is_added_up_ || entry.core != 0 ? kAll : kSlice;
    const std::uint8_t* wanted = made.wanted.data();
    for (std::size_t done = 0; done < rows;) {
      const Unit::Outcome some = unit.apply(procedure, made.columns, rows - done, start + static_cast<Word>(done), most, wanted);
      if (some.failure) return false;
      done += some.done;
      wanted += some.done;
      for (const Word*& column : made.columns) column += some.done;
      if (!keeps_log) {
        for (const std::uint32_t log : core.logs) unit.channel(log).clear();
      }
      if (with_deltas && unit.channel(core.delta).size() >= most && !pass_on()) return false;
    }
    return true;
  }

  // Takes what the core has told further.
  bool pass_on() {
    Unit& unit = view->unit->held();
    Channel& channel = unit.channel(view->cores[0].delta);
    if (channel.size() == 0) return true;
    const CoreDelta delta{channel.take(), view->cores[0].width};
    if (view->group) return view->group->take_in(unit, delta, view->constants, *stack_, steps_ ? &*steps_ : nullptr);
    OutputRows rows;
    if (!view->rows->choose(delta, view->constants, *stack_, rows)) return false;
    if (view->rows->distinct) return view->rows->count(unit, rows, steps_ ? &*steps_ : nullptr);
    changed_rows += rows.size;
    give_words(rows);
    if (updates.is_wanted) tell_rows(view->rows->types, rows, *shared_, values_, updates);
    if (!net.is_wanted) return true;
    if (is_added_up_ && !net_rows(rows)) return false;
    tell_rows(view->rows->types, rows, *shared_, values_, net);
    return true;
  }

  bool conclude() {
    Unit& unit = view->unit->held();
    if (!with_deltas) {
      for (const BatchCore& core : view->cores) {
        if (core.beyond && unit.program().tables[*core.beyond].size() != 0) return false;
      }
      return true;
    }
    if (!pass_on()) return false;
    if (view->group) return conclude_groups(unit);
    if (view->rows->distinct) conclude_distinct(unit);
    return true;
  }

  void give_words(const OutputRows& rows) {
    if (!gives_words || rows.size == 0) return;
    words.push_back(words_of(view->rows->types, rows));
  }

  WordPiece words_of(const std::vector<ColumnType>& types, const OutputRows& rows) const {
    WordPiece piece;
    for (std::size_t o = 0; o < rows.outputs.size(); ++o) {
      const OutputRows::Output& output = rows.outputs[o];
      piece.columns.push_back(output.words.words != nullptr ? output.words
                                                            : words_of_numbers(types[o], output.values, output.nulls, *values_));
    }
    piece.weights = rows.weights;
    return piece;
  }

  // What has changed of the values of aggregates that are kept elsewhere; false if that cannot be said in words.
  bool hand_over(Unit& unit) {
    for (const HandedValues& values : view->group->handed) {
      const BatchCore& core = view->cores[values.core];
      const CoreDelta delta{unit.channel(core.delta).take(), core.width};
      if (delta.size() == 0) {
        handed.emplace_back();
        continue;
      }
      OutputRows rows;
      if (groups.size == 0 || !values.rows.choose(delta, view->constants, *stack_, rows)) return false;
      handed.push_back(words_of(values.rows.types, rows));
    }
    return true;
  }

  void conclude_distinct(Unit& unit) {
    const OutputRows rows = distinct_rows(view->rows->distinct->changed(unit, values_));
    changed_rows += rows.size;
    give_words(rows);
    if (net.is_wanted) tell_rows(view->rows->types, rows, *shared_, values_, net);
    if (steps_) tell_rows(view->rows->types, distinct_rows(steps_->take()), *shared_, values_, updates);
  }

  bool conclude_groups(Unit& unit) {
    const GroupOutput& group = *view->group;
    for (const DistinctValues& distinct : group.distinct) {
      const BatchCore& core = view->cores[distinct.core];
      const CoreDelta delta{unit.channel(core.delta).take(), core.width};
      for (std::size_t first = 0; first < delta.size(); first += kFew) {
        const CoreDelta part = delta.part(first, std::min(kFew, delta.size() - first));
        if (!distinct.take_in(unit, part, group.kept, view->constants, *stack_, values_)) return false;
      }
    }
    if (!group.read.empty()) {
      const ChangedGroups touched = group.kept.touched(unit);
      for (const ReadValues& read : group.read) {
        if (!read.read(unit, touched, group.kept, group.count_words)) return false;
      }
    }
    groups = group.kept.changed(unit, values_);
    for (const ListedValues& listed : group.listed) {
      const BatchCore& core = view->cores[listed.core];
      const CoreDelta delta{unit.channel(core.delta).take(), core.width};
      groups.listed_old.push_back(listed.results(unit, groups));
      if (delta.size() != 0 && !listed.take_in(unit, delta, view->constants, *stack_, values_)) return false;
      groups.listed_now.push_back(listed.results(unit, groups));
    }
    for (const DistinctValues& distinct : group.distinct) {
      groups.listed_old.push_back(groups.old[distinct.measure]);
      groups.listed_now.push_back(groups.now[distinct.measure]);
    }
    for (const ReadValues& read : group.read) {
      groups.listed_old.push_back(read.values(groups.old[read.measure]));
      groups.listed_now.push_back(read.values(groups.now[read.measure]));
    }
    if (!hand_over(unit)) return false;
    if (steps_ && !finish(steps_->take(), updates)) return false;
    if (finish(groups, net)) groups = ChangedGroups();
    return groups.size == 0 || !(steps_ || gives_words);  // Whoever called finishes what is left.
  }

  // Rows of groups, for a feed; false if that cannot be said in words.
  bool finish(const ChangedGroups& changed, FeedOutput& feed) {
    const GroupOutput& group = *view->group;
    FinishedGroups made;
    if (!group.finish || !finish_groups(*group.finish, changed, group.count_words, view->constants, *stack_, made)) {
      return false;
    }
    const FeedOrder order = changed_rows_of(*group.finish, changed, made, !changed.updates.empty());
    if (&feed == &net) {
      changed_rows = order.rows.size();
      if (gives_words && changed_rows != 0) words.push_back({words_of_groups(*group.finish, changed, made, order, *values_), weights_of(order)});
    }
    if (feed.is_wanted && !order.rows.empty()) {
      feed.add(feed_of_groups(*group.finish, changed, made, order, *shared_, values_), 0);
    }
    return true;
  }

  ValueTable* values_ = nullptr;
  SharedColumns* shared_ = nullptr;
  std::vector<Values>* stack_ = nullptr;
  bool is_added_up_ = false;
  std::optional<Steps> steps_;
};

}  // namespace everview

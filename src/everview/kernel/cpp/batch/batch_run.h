// One batch in one call: tables take their rows in, then each view the whole batch, and feeds are told what has changed.
#pragma once

#include "../run/shared.h"
#include "group_output.h"
#include "rows.h"

namespace everview {

// How a table takes rows in.
struct BatchTable {
  UnitHandle unit;
  std::size_t change = 0;                // The procedure,
  std::vector<std::uint32_t> refusals;   // the channels on which it says that a row is too many or too few,
  std::size_t rows = 0;                  // and its table of rows.
  std::vector<std::uint32_t> wide;       // Columns of wide values.
};

// How a view's core takes a table's rows in.
struct BatchEntry {
  std::size_t state_only = 0, with_deltas = 0;
  std::vector<AtomInput> inputs;
};

struct BatchView {
  UnitHandle unit;
  Constants constants;
  std::vector<BatchEntry> entries;
  std::size_t delta = 0;               // The channel,
  std::size_t width = 0;               // how many of its columns are no measures,
  std::optional<std::size_t> beyond;   // and the table that has a row once a sum may be beyond its type.
  GroupOutput group;
};

// Some rows of a table that come or go.
struct BatchPiece {
  BatchTable* table = nullptr;
  ReadRows* rows = nullptr;
  std::vector<Word> own_weights;
  const Word* weights = nullptr;
  std::vector<std::pair<std::size_t, std::size_t>> routes;  // Views that read it, and by which entry.
  std::vector<const Word*> columns;
  std::vector<MadeColumns> made;  // For each route.
  bool applied = false;
};

struct ViewOfBatch {
  BatchView* view = nullptr;
  bool with_deltas = false;  // Its groups are followed.
  bool has_feed = false;
  bool is_told = false;
  ChangedGroups groups;
  std::unique_ptr<FeedBatch> feed;
  std::size_t changed_rows = 0;
};

enum class BatchOutcome : std::uint8_t {
  kDone,
  kNotBegun,  // Something cannot be said in words, or a value fails; nothing has changed.
  kStopped,   // Something is refused, or cannot go on; the batch is to be taken back.
};

class BatchRun {
 public:
  BatchRun(SharedMachine& machine, std::vector<BatchPiece> pieces, std::vector<ViewOfBatch> views, Word version)
      : machine_(machine), pieces_(std::move(pieces)), views_(std::move(views)), version_(version) {}

  std::vector<BatchPiece>& pieces() noexcept { return pieces_; }
  std::vector<ViewOfBatch>& views() noexcept { return views_; }

  BatchOutcome run() {
    return machine_.use([&](Machine&) {
      values_ = machine_.held_values();
      BatchOutcome outcome = BatchOutcome::kNotBegun;
      try {
        if (prepare()) {
          outcome = BatchOutcome::kStopped;
          if (apply_tables() && apply_views() && conclude()) outcome = BatchOutcome::kDone;
        }
      } catch (const std::exception&) {  // No memory, or too many uses of a value.
      }
      if (outcome == BatchOutcome::kStopped) take_tables_back();
      for (const BatchPiece& piece : pieces_) piece.table->unit->held().report();
      for (const ViewOfBatch& view : views_) view.view->unit->held().report();
      return outcome;
    });
  }

 private:
  // All that is computed of rows alone, before anything changes.
  bool prepare() {
    for (ViewOfBatch& view : views_) view.view->constants.resolve(values_);
    for (BatchPiece& piece : pieces_) {
      piece.rows->encode(values_);
      for (ReadColumn& column : piece.rows->columns()) piece.columns.push_back(column.words.words.get());
      piece.made.resize(piece.routes.size());
    }
    for (ViewOfBatch& view : views_) view.view->constants.resolve(values_);  // Strings of the batch have ids now.
    for (BatchPiece& piece : pieces_) {
      const std::size_t rows = piece.rows->size();
      for (std::size_t r = 0; r < piece.routes.size(); ++r) {
        const auto [number, entry] = piece.routes[r];
        const BatchView& view = *views_[number].view;
        MadeColumns& made = piece.made[r];
        made.wanted.assign(rows, 0);
        for (const AtomInput& input : view.entries[entry].inputs) {
          if (!input.make(piece.columns, piece.weights, rows, view.constants, stack_, made)) return false;
        }
        made.columns.push_back(piece.weights);
      }
    }
    return true;
  }

  bool apply_tables() {
    for (BatchPiece& piece : pieces_) {
      BatchTable& table = *piece.table;
      Unit& unit = table.unit->held();
      for (const std::uint32_t channel : table.refusals) unit.channel(channel).clear();
      std::vector<const Word*> columns = piece.columns;
      columns.push_back(piece.weights);
      const std::size_t rows = piece.rows->size();
      const Unit::Outcome done = unit.apply(table.change, columns, rows, 0, kAll);
      bool refused = done.failure.has_value();
      for (const std::uint32_t channel : table.refusals) refused |= unit.channel(channel).size() != 0;
      if (refused) {
        unit.unapply(table.change, columns, done.done, {columns.size() - 1});
        for (const std::uint32_t channel : table.refusals) unit.channel(channel).clear();
        return false;
      }
      piece.applied = true;
      for (const std::uint32_t column : table.wide) values_->count(piece.columns[column], piece.weights, rows);
    }
    return true;
  }

  void take_tables_back() noexcept {
    for (std::size_t i = pieces_.size(); i-- > 0;) {
      BatchPiece& piece = pieces_[i];
      if (!std::exchange(piece.applied, false)) continue;
      std::vector<const Word*> columns = piece.columns;
      columns.push_back(piece.weights);
      piece.table->unit->held().unapply(piece.table->change, columns, piece.rows->size(), {columns.size() - 1});
    }
  }

  bool apply_views() {
    std::vector<Word> starts;
    Word start = 0;
    for (BatchPiece& piece : pieces_) {
      for (std::size_t r = 0; r < piece.routes.size(); ++r) {
        MadeColumns& made = piece.made[r];
        if (!made.any) continue;
        const auto [number, entry] = piece.routes[r];
        ViewOfBatch& view = views_[number];
        view.is_told = true;
        const BatchEntry& called = view.view->entries[entry];
        const std::size_t procedure = view.with_deltas ? called.with_deltas : called.state_only;
        Unit& unit = view.view->unit->held();
        const std::size_t rows = piece.rows->size();
        if (unit.apply(procedure, made.columns, rows, start, kAll, made.wanted.data()).failure) return false;
        made = MadeColumns();
      }
      start += static_cast<Word>(piece.rows->size());
    }
    return true;
  }

  bool conclude() {
    for (ViewOfBatch& view : views_) {
      if (!view.is_told) continue;
      const BatchView& how = *view.view;
      Unit& unit = how.unit->held();
      if (!view.with_deltas) {
        if (how.beyond && unit.program().tables[*how.beyond].size() != 0) return false;
        continue;
      }
      if (unit.channel(how.delta).size() == 0) continue;
      const std::vector<Column> delta = unit.channel(how.delta).take();
      if (!how.group.take_in(unit, delta, how.width, how.constants, stack_)) return false;
      view.groups = how.group.changed(unit, values_);
      if (!how.group.finish) continue;
      FinishedGroups made;
      if (!finish_groups(*how.group.finish, view.groups, how.group.count_words, how.constants, stack_, made)) {
        continue;  // Whoever called finishes them.
      }
      const FeedOrder order = changed_rows(made, view.groups.size);
      view.changed_rows = order.rows.size();
      if (view.has_feed && view.changed_rows != 0) {
        view.feed = feed_of_groups(*how.group.finish, view.groups, made, order, version_, values_);
      }
      view.groups = ChangedGroups();
    }
    return true;
  }

  static constexpr std::size_t kAll = std::numeric_limits<std::size_t>::max();

  SharedMachine& machine_;
  ValueTable* values_ = nullptr;
  std::vector<BatchPiece> pieces_;
  std::vector<ViewOfBatch> views_;
  Word version_;
  std::vector<Values> stack_;
};

}  // namespace everview

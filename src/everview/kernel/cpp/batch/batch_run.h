// One batch in one call: tables take their rows in, then each view the whole batch, and feeds are told what has changed.
#pragma once

#include "batch_view.h"
#include "rows.h"

namespace everview {

// How a table takes rows in.
struct BatchTable {
  UnitHandle unit;
  std::size_t change = 0;                // The procedure,
  std::vector<std::uint32_t> refusals;   // the channels on which it says that a row is too many or too few,
  std::size_t rows = 0;                  // and its table of rows.
  std::vector<std::uint32_t> wide;       // Columns of wide values.

  std::size_t distinct() const { return unit->program().tables[rows].size(); }
};

// Some rows of a table that come or go.
struct BatchPiece {
  BatchTable* table = nullptr;
  ReadRows* rows = nullptr;
  std::vector<Word> own_weights;
  const Word* weights = nullptr;
  Word copies = 0;  // Of all rows that the table had before the batch.
  std::vector<std::pair<std::size_t, std::size_t>> routes;  // Views that read it, and by which entries.
  std::vector<const Word*> columns;
  bool applied = false;
};

enum class BatchOutcome : std::uint8_t {
  kDone,
  kNotBegun,  // Nothing has changed.
  kStopped,   // Something is refused, cannot be said in words, or cannot go on; the batch is to be taken back.
};

class BatchRun {
 public:
  // With `may_net` the views need not know one update from another, and one of them gains if each row changes once;
  // `disjoint` says that no row is in two pieces.
  BatchRun(SharedMachine& machine, std::vector<BatchPiece> pieces, std::vector<ViewOfBatch> views, SharedColumns shared, bool may_net,
           bool disjoint)
      : machine_(machine),
        pieces_(std::move(pieces)),
        views_(std::move(views)),
        shared_(std::move(shared)),
        may_net_(may_net),
        disjoint_(disjoint) {}

  std::vector<ViewOfBatch>& views() noexcept { return views_; }
  bool is_net() const noexcept { return is_net_; }

  BatchOutcome run() {
    return machine_.use([&](Machine&) {
      values_ = machine_.held_values();
      BatchOutcome outcome = BatchOutcome::kNotBegun;
      try {
        begin();
        outcome = BatchOutcome::kStopped;
        if (apply_tables() && apply_views()) outcome = BatchOutcome::kDone;
      } catch (const std::exception&) {  // No memory, or too many uses of a value.
      }
      if (outcome == BatchOutcome::kStopped) unapply_tables();
      report_tables();
      for (const ViewOfBatch& view : views_) view.view->unit->held().report();
      return outcome;
    });
  }

  // The tables as they were before.
  void take_tables_back() {
    machine_.use([&](Machine&) { unapply_tables(); });
  }

 private:
  void begin() {
    for (BatchPiece& piece : pieces_) {
      piece.rows->encode(values_);
      for (ReadColumn& column : piece.rows->columns()) piece.columns.push_back(column.words.words.get());
    }
    for (const ViewOfBatch& view : views_) view.view->constants.store(values_);
    for (ViewOfBatch& view : views_) view.view->constants.resolve(values_);  // Strings of the batch have ids now.
  }

  bool apply_tables() {
    Word last = 0;
    bool is_set = may_net_;
    for (BatchPiece& piece : pieces_) {
      BatchTable& table = *piece.table;
      Unit& unit = table.unit->held();
      for (const std::uint32_t channel : table.refusals) unit.channel(channel).clear();
      std::vector<const Word*> columns = piece.columns;
      columns.push_back(piece.weights);
      const std::size_t rows = piece.rows->size(), before = table.distinct();
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
      const std::size_t after = table.distinct();
      const Word flipped = after == before + rows ? 1 : after + rows == before ? -1 : 0;
      is_net_ &= rows == 0 || (flipped != 0 && (last == 0 || last == flipped || (disjoint_ && last < flipped)));
      if (rows != 0) last = flipped;
      is_set &= &piece != first_of(piece) || piece.copies == static_cast<Word>(before);
    }
    if (is_set && !is_net_ && are_sets()) {
      net_tables();
      return true;
    }
    Word start = 0;
    for (BatchPiece& piece : pieces_) {
      add_changes({piece.columns, piece.weights, piece.rows->size(), start}, piece);
      start += static_cast<Word>(piece.rows->size());
    }
    return true;
  }

  void add_changes(BatchChanges changes, const BatchPiece& piece) {
    for (const auto& [view, entries] : piece.routes) views_[view].inputs.emplace_back(changes_.size(), entries);
    changes_.push_back(std::move(changes));
  }

  BatchPiece* first_of(const BatchPiece& piece) {
    return &*std::find_if(pieces_.begin(), pieces_.end(), [&](const BatchPiece& p) { return p.table == piece.table; });
  }

  // Whether no row of the tables is there twice now.
  bool are_sets() {
    for (const BatchPiece& piece : pieces_) {
      Word copies = piece.copies;
      for (const BatchPiece& other : pieces_) {
        for (std::size_t i = 0; other.table == piece.table && i < other.rows->size(); ++i) copies += other.weights[i];
      }
      if (copies != static_cast<Word>(piece.table->distinct())) return false;
    }
    return true;
  }

  // Each row once, and all that go, of all tables, before those that come: so a combination of rows changes once.
  void net_tables() {
    struct Netted {
      BatchPiece* piece;
      std::vector<std::uint32_t> first;
      std::vector<Word> sums;
      std::vector<Column> columns;
    };
    std::vector<Netted> netted;
    for (BatchPiece& piece : pieces_) {
      if (first_of(piece) != &piece) continue;
      Netted& made = netted.emplace_back();
      made.piece = &piece;
      std::vector<std::vector<Word>> words(piece.columns.size());
      std::vector<Word> weights;
      for (const BatchPiece& other : pieces_) {
        if (other.table != piece.table) continue;
        const std::size_t rows = other.rows->size();
        for (std::size_t c = 0; c < words.size(); ++c) words[c].insert(words[c].end(), other.columns[c], other.columns[c] + rows);
        weights.insert(weights.end(), other.weights, other.weights + rows);
      }
      std::vector<const Word*> keys;
      for (const std::vector<Word>& column : words) keys.push_back(column.data());
      if (!added_up(keys, weights.data(), weights.size(), made.first, made.sums)) throw std::overflow_error("too many copies");
      for (const std::vector<Word>& column : words) made.columns.push_back(column_of(column));
    }
    for (const bool comes : {false, true}) {
      for (const Netted& made : netted) {
        std::vector<std::uint32_t> rows;
        std::vector<Word> weights;
        for (std::size_t i = 0; i < made.first.size(); ++i) {
          if (made.sums[i] == 0 || (made.sums[i] > 0) != comes) continue;
          rows.push_back(made.first[i]);
          weights.push_back(made.sums[i]);
        }
        if (rows.empty()) continue;
        BatchChanges changes;
        changes.rows = rows.size();
        for (const Column& column : made.columns) {
          held_.push_back(gathered(column, rows));
          changes.columns.push_back(held_.back().words.get());
        }
        held_.push_back(column_of(weights));
        changes.weights = held_.back().words.get();
        add_changes(std::move(changes), *made.piece);
      }
    }
    is_net_ = true;
  }

  void unapply_tables() noexcept {
    for (std::size_t i = pieces_.size(); i-- > 0;) {
      BatchPiece& piece = pieces_[i];
      if (!std::exchange(piece.applied, false)) continue;
      std::vector<const Word*> columns = piece.columns;
      columns.push_back(piece.weights);
      piece.table->unit->held().unapply(piece.table->change, columns, piece.rows->size(), {columns.size() - 1});
    }
  }

  void report_tables() noexcept {
    for (const BatchPiece& piece : pieces_) piece.table->unit->held().report();
  }

  // Each view after those that it reads; what each has grown by counts for the memory limit of the next.
  bool apply_views() {
    report_tables();
    std::size_t came = 0;
    for (const BatchPiece& piece : pieces_) came += piece.rows->size();
    for (std::size_t i = 0; i < views_.size(); ++i) {
      ViewOfBatch& view = views_[i];
      if (!view.run(changes_, is_net_, came, shared_, values_, stack_)) return false;
      view.view->unit->held().report();
      for (const WordPiece& piece : view.words) {
        BatchChanges changes;
        for (const Column& column : piece.columns) changes.columns.push_back(column.words.get());
        changes.weights = piece.weights.words.get();
        changes.rows = piece.weights.size;
        changes.made = &piece;
        for (const auto& [reader, entries] : view.readers) views_[reader].inputs.emplace_back(changes_.size(), entries);
        changes_.push_back(std::move(changes));
      }
    }
    return true;
  }

  SharedMachine& machine_;
  ValueTable* values_ = nullptr;
  std::vector<BatchPiece> pieces_;
  std::vector<BatchChanges> changes_;
  std::vector<Column> held_;
  std::vector<ViewOfBatch> views_;
  SharedColumns shared_;
  bool may_net_, disjoint_;
  bool is_net_ = true;  // No combination of rows has come or gone twice.
  std::vector<Values> stack_;
};

}  // namespace everview

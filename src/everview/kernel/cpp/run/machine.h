// The machine of a database: units, each a program and its state, and the batches that change them together.
#pragma once

#include <optional>

#include "interpreter.h"
#include "prefetch.h"

namespace everview {

class Unit;

// What the units of a database have in common: how many bytes they take and may take, and the batch that is running. The
// cost of a batch follows the units that it touches, however many there are. Not for two threads at a time.
class Machine {
 public:
  Machine() { budget_.keep_some(); }
  Machine(const Machine&) = delete;
  Machine& operator=(const Machine&) = delete;

  std::size_t nbytes() const noexcept { return bytes_; }  // Of all units, without the log.
  std::size_t log_nbytes() const noexcept { return budget_.used(); }
  std::optional<std::size_t> memory_limit() const noexcept { return memory_limit_; }
  void set_memory_limit(std::optional<std::size_t> bytes) noexcept { memory_limit_ = bytes; }
  bool is_in_batch() const noexcept { return in_batch_; }

  // From now on units keep what they change, in logs of at most so many bytes together.
  void begin(std::size_t most_log_bytes) {
    if (in_batch_) throw std::invalid_argument("a batch is running already");
    in_batch_ = true;
    budget_.set_most(most_log_bytes);
  }
  inline void commit();
  // Takes back what the units have changed since `begin`; gives the numbers of those that have lost their logs, and so
  // hold anything now.
  inline std::vector<std::size_t> roll_back();

 private:
  friend class Unit;

  std::size_t bytes_ = 0;
  std::size_t units_ = 0;  // That there have been.
  std::optional<std::size_t> memory_limit_;
  bool in_batch_ = false;
  LogBudget budget_;
  std::vector<Unit*> joined_;  // The units that the batch has changed.
};

// A program and its state, at work update by update. An update that fails is undone before the unit says so; in a batch,
// nothing but taking the batch back may follow.
class Unit {
 public:
  struct Failure {
    std::size_t update;
    Fault fault;
  };

  struct Outcome {
    std::size_t done;  // How many updates were made.
    std::optional<Failure> failure;
  };

  Unit(Machine& machine, Program program, bool is_logged)
      : machine_(machine),
        number_(machine.units_++),
        program_(std::move(program)),
        interpreter_(program_, log_),
        batch_(machine.budget_),
        is_logged_(is_logged) {
    marks_.resize(program_.channels.size());
    prefetchers_.resize(program_.procedures.size());
    counted_.resize(program_.tables.size());
    is_changed_.resize(program_.tables.size());
    versions_.resize(program_.tables.size());
    changed_.reserve(program_.tables.size());
    count_all();
    report();
  }
  Unit(const Unit&) = delete;
  Unit& operator=(const Unit&) = delete;
  ~Unit() {
    machine_.bytes_ -= reported_;
    std::erase(machine_.joined_, this);
  }

  std::size_t number() const noexcept { return number_; }
  const Program& program() const noexcept { return program_; }
  Channel& channel(std::size_t number) noexcept { return program_.channels[number]; }
  std::uint64_t steps() const noexcept { return interpreter_.steps(); }
  std::uint64_t version() const noexcept { return version_; }  // Another one after every change.
  // The same for some tables: another one after every call that may have changed one of them.
  std::uint64_t version_of(const std::vector<std::uint32_t>& tables) const noexcept {
    std::uint64_t sum = 0;  // None of them ever goes down.
    for (const std::uint32_t table : tables) sum += versions_[table];
    return sum;
  }

  std::size_t nbytes() const noexcept {
    std::size_t bytes = sizeof(Unit) + log_.nbytes() + interpreter_.nbytes() + tables_bytes_;
    for (const Channel& channel : program_.channels) bytes += channel.nbytes();
    return bytes;
  }

  // To be called when a call has ended: the machine knows then what the unit takes.
  void report() noexcept {
    const std::size_t bytes = nbytes();
    machine_.bytes_ += bytes - std::exchange(reported_, bytes);
  }

  // Runs a procedure with row 0, 1, … of its columns; stops at the first that fails, or when a channel holds
  // `most_pending` rows or more. With `wanted`, a mark for each row, the others are passed over.
  Outcome apply(std::size_t procedure, const std::vector<const Word*>& columns, std::size_t rows, Word first_update,
                std::size_t most_pending, const std::uint8_t* wanted = nullptr) {
    join();
    const Procedure& called = program_.procedures[procedure];
    outdate(called.changes);
    std::optional<Failure> failure;
    Prefetcher* const prefetcher = prefetcher_of(procedure, columns, rows);
    Word* const arguments = interpreter_.arguments();
    const std::optional<std::size_t> limit = machine_.memory_limit_;
    const std::size_t others = machine_.bytes_ - reported_;
    std::size_t i = 0;
    for (; i < rows && !holds(called.emits, most_pending); ++i) {
      if (prefetcher != nullptr) prefetcher->advance(i);
      if (wanted != nullptr && wanted[i] == 0) continue;
      if (limit) {
        count_changed();
        if (others + nbytes() > *limit) {
          failure = {i, {Fault::Kind::kMemory, "the state has reached its memory limit"}};
          break;
        }
      }
      for (std::size_t c = 0; c < columns.size(); ++c) arguments[c] = columns[c][i];
      const Word update = static_cast<Word>(static_cast<std::uint64_t>(first_update) + i);
      if (const std::optional<Fault> fault = run_update(called, update)) {
        failure = {i, *fault};
        break;
      }
    }
    has_failed_ = is_joined_ && failure.has_value();
    give_back();
    return {i, failure};
  }

  // Takes the first `rows` updates back: the last first, with the words in columns `weights` negated, and silently.
  std::optional<Failure> unapply(std::size_t procedure, const std::vector<const Word*>& columns, std::size_t rows,
                                 const std::vector<std::size_t>& weights) {
    join();
    outdate(program_.procedures[procedure].changes);
    silent_ = true;
    Word* const arguments = interpreter_.arguments();
    std::optional<Failure> failure;
    for (std::size_t i = rows; i-- > 0;) {
      for (std::size_t c = 0; c < columns.size(); ++c) arguments[c] = columns[c][i];
      bool overflow = false;
      for (const std::size_t weight : weights) {
        overflow |= __builtin_sub_overflow(Word{0}, arguments[weight], &arguments[weight]);
      }
      const std::optional<Fault> fault =
          overflow ? Fault{Fault::Kind::kOverflow, "a weight of -2^63 cannot be negated"}
                   : run_update(program_.procedures[procedure], static_cast<Word>(i));
      if (fault) {
        failure = {i, *fault};
        break;
      }
    }
    silent_ = false;
    give_back();
    return failure;
  }

  // Runs a procedure that only reads with row 0, 1, … of its columns; stops at the first that fails. The state stays as it
  // is, so cursors go on.
  std::optional<Failure> ask(std::size_t procedure, const std::vector<const Word*>& columns, std::size_t rows) {
    const Procedure& called = program_.procedures[procedure];
    if (!called.reads_only) throw std::invalid_argument("what is asked must not change anything");
    Word* const arguments = interpreter_.arguments();
    for (std::size_t i = 0; i < rows; ++i) {
      for (std::size_t c = 0; c < columns.size(); ++c) arguments[c] = columns[c][i];
      if (const std::optional<Fault> fault = run_update(called, static_cast<Word>(i))) return {{i, *fault}};
    }
    return std::nullopt;
  }

  // Asks a function for a cursor: the words that its procedure gives.
  void answer(const Question& question, const Frame& frame, Word* results) {
    Word* const arguments = interpreter_.arguments();
    for (std::size_t i = 0; i < question.arguments.size(); ++i) arguments[i] = read(question.arguments[i], frame);
    Channel& given = program_.channels[question.channel];
    given.truncate(0);
    interpreter_.run(program_.procedures[question.procedure], 0, false);
    if (given.size() != 1) fail_program("a function has given more or less than one row");
    for (std::size_t c = 0; c < given.width(); ++c) results[c] = given.end(c)[-1];
    given.truncate(0);
  }

  // Removes all rows of some tables; what some channels hold belongs to the old state, and goes too. In a batch that is no
  // change that a log could take back.
  void clear(const std::vector<std::uint32_t>& tables, const std::vector<std::uint32_t>& channels) {
    std::vector<Table> fresh;
    for (const std::uint32_t table : tables) fresh.push_back(program_.tables[table].fresh());
    join();
    batch_.lose();
    outdate(tables);
    for (std::size_t i = 0; i < tables.size(); ++i) {
      program_.tables[tables[i]] = std::move(fresh[i]);
      count(tables[i]);
    }
    for (const std::uint32_t channel : channels) program_.channels[channel].clear();
    if (!is_joined_) batch_.clear();
  }

  // Other tables of the same shapes. In a batch that is no change that a log could take back.
  void replace(std::vector<Table> tables) {
    join();
    batch_.lose();
    outdate_all();
    for (std::size_t i = 0; i < tables.size(); ++i) program_.tables[i] = std::move(tables[i]);
    for (Channel& channel : program_.channels) channel.clear();
    count_all();
    if (!is_joined_) batch_.clear();
  }

  // The batch that is running cannot be taken back by a log any more: something beside the unit has none.
  void lose_log() {
    join();
    if (is_joined_) batch_.lose();
  }

  // The batch stays, or is taken back. False if it cannot be: its log is lost, or there was no memory on the way.
  void commit() noexcept { leave(); }
  bool roll_back() noexcept {
    log_.batch = nullptr;
    bool is_whole = !batch_.is_lost();
    try {
      for (BatchLog::Record record; is_whole && batch_.pop(record);) {
        Table& table = program_.tables[record.table];
        log_.clear();
        table.take_back(record, log_);
        table.tidy();
      }
    } catch (const std::exception&) {
      is_whole = false;
    }
    log_.clear();
    for (Channel& channel : program_.channels) channel.clear();
    for (Table& table : program_.tables) table.release_if_empty();
    outdate_all();
    leave();
    report();
    return is_whole;
  }

 private:
  // To be called before anything changes: a batch that is running knows of it.
  void join() {
    if (has_failed_) throw std::invalid_argument("a batch that has failed can only be taken back");
    if (!machine_.in_batch_ || !is_logged_ || is_joined_) return;
    machine_.joined_.push_back(this);
    is_joined_ = true;
    log_.batch = &batch_;
  }

  void leave() noexcept {
    log_.batch = nullptr;
    batch_.clear();
    is_joined_ = has_failed_ = false;
    for (Table& table : program_.tables) table.forget_marks();
    count_all();
  }

  bool holds(const std::vector<std::uint32_t>& channels, std::size_t rows) const noexcept {
    for (const std::uint32_t channel : channels) {
      if (program_.channels[channel].size() >= rows) return true;
    }
    return false;
  }

  // To be called before tables change: what reads them by a cursor must begin anew.
  void outdate(const std::vector<std::uint32_t>& tables) noexcept {
    ++version_;
    for (const std::uint32_t table : tables) ++versions_[table];
  }
  void outdate_all() noexcept {
    ++version_;
    for (std::uint64_t& version : versions_) ++version;
  }

  // Brings the bytes of tables up to date.
  void count(std::size_t number) noexcept {
    const std::size_t bytes = program_.tables[number].nbytes();
    tables_bytes_ += bytes - std::exchange(counted_[number], bytes);
  }
  void count_all() noexcept {
    for (std::size_t i = 0; i < program_.tables.size(); ++i) count(i);
  }
  void count_changed() noexcept {
    if (std::exchange(log_.rearranged, false)) count_all();
    for (const std::uint32_t number : changed_) {
      is_changed_[number] = false;
      count(number);
    }
    changed_.clear();
  }

  // After a call: an empty table keeps no memory, and a unit without rows none but what a new one has.
  void give_back() noexcept {
    for (const std::uint32_t number : changed_) program_.tables[number].release_if_empty();
    count_changed();
    const bool is_small = tables_bytes_ <= kSmall && is_empty();
    is_small ? log_.release() : log_.give_back();
    interpreter_.give_back(is_small);
  }
  bool is_empty() const noexcept {
    for (const Table& table : program_.tables) {
      if (table.size() != 0) return false;
    }
    return true;
  }

  // What fetches ahead for a batch; null if that does not pay.
  Prefetcher* prefetcher_of(std::size_t procedure, const std::vector<const Word*>& columns, std::size_t rows) {
    constexpr std::size_t kFewUpdates = 8;
    if (rows < kFewUpdates) return nullptr;
    std::unique_ptr<Prefetcher>& prefetcher = prefetchers_[procedure];
    if (prefetcher == nullptr) {
      prefetcher = std::make_unique<Prefetcher>(ProbeFinder::find(program_, program_.procedures[procedure]));
    }
    prefetcher->begin(columns, rows);
    return prefetcher.get();
  }

  // One update, whole or not at all; its arguments are where the interpreter wants them.
  std::optional<Fault> run_update(const Procedure& procedure, Word update) {
    log_.clear();
    for (const std::uint32_t channel : procedure.emits) marks_[channel] = program_.channels[channel].size();
    const BatchLog::Mark mark = batch_.mark();
    std::optional<Fault> fault;
    try {
      interpreter_.run(procedure, update, silent_);
    } catch (const Fault& thrown) {
      fault = thrown;
    } catch (const std::bad_alloc&) {
      fault = Fault{Fault::Kind::kMemory, "there is no memory left"};
    } catch (const std::length_error&) {
      fault = Fault{Fault::Kind::kMemory, "a table is full"};
    }
    if (fault) undo(procedure, mark);
    interpreter_.tidy([this](const Table& table) {
      if (std::exchange(is_changed_[table.number()], true)) return;
      changed_.push_back(table.number());
    });
    return fault;
  }

  void undo(const Procedure& procedure, BatchLog::Mark mark) noexcept {
    while (!log_.empty()) {
      const UndoLog::Header header = log_.pop_header();
      program_.tables[header.table].undo(header.kind, log_);
    }
    batch_.cut(mark);
    for (const std::uint32_t channel : procedure.emits) program_.channels[channel].truncate(marks_[channel]);
  }

  static constexpr std::size_t kSmall = std::size_t{1} << 16;  // Bytes that tables without rows may have.

  Machine& machine_;
  std::size_t number_;
  Program program_;
  UndoLog log_;
  Interpreter interpreter_;
  BatchLog batch_;
  bool is_logged_;
  bool is_joined_ = false;   // In the batch that is running.
  bool has_failed_ = false;  // In it.
  std::vector<std::unique_ptr<Prefetcher>> prefetchers_;  // Of each procedure, once it has been applied to a batch.
  std::vector<std::size_t> marks_;  // The channels' sizes when the update began.
  std::vector<std::size_t> counted_;  // The bytes of each table, as far as they are known.
  std::size_t tables_bytes_ = 0;      // All of them.
  std::vector<std::uint8_t> is_changed_;
  std::vector<std::uint32_t> changed_;  // The tables whose rows have come or gone since they were counted.
  std::size_t reported_ = 0;
  bool silent_ = false;
  std::uint64_t version_ = 0;
  std::vector<std::uint64_t> versions_;  // Of each table.
};

inline void Machine::commit() {
  for (Unit* const unit : joined_) {
    unit->commit();
    unit->report();
  }
  joined_.clear();
  in_batch_ = false;
}

inline std::vector<std::size_t> Machine::roll_back() {
  std::vector<std::size_t> lost;
  lost.reserve(joined_.size());
  for (Unit* const unit : joined_) {
    if (!unit->roll_back()) lost.push_back(unit->number());
  }
  joined_.clear();
  in_batch_ = false;
  return lost;
}

}  // namespace everview

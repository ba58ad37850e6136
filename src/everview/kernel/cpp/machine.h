// The machine: a program's state, and what happens to it update by update.
#pragma once

#include <optional>

#include "interpreter.h"
#include "prefetch.h"

namespace everview {

// Runs procedures, update by update. An update that fails is undone before the machine says so. Not for two threads at
// a time.
class Machine {
 public:
  struct Failure {
    std::size_t update;
    Fault fault;
  };

  struct Outcome {
    std::size_t done;  // How many updates were made.
    std::optional<Failure> failure;
  };

  explicit Machine(Program program) : program_(std::move(program)), interpreter_(program_, log_) {
    marks_.resize(program_.channels.size());
    prefetchers_.resize(program_.procedures.size());
  }
  Machine(const Machine&) = delete;
  Machine& operator=(const Machine&) = delete;

  const Program& program() const noexcept { return program_; }
  Channel& channel(std::size_t number) noexcept { return program_.channels[number]; }
  std::uint64_t steps() const noexcept { return interpreter_.steps(); }
  std::uint64_t version() const noexcept { return version_; }  // Another one after every change.
  std::optional<std::size_t> memory_limit() const noexcept { return memory_limit_; }
  void set_memory_limit(std::optional<std::size_t> bytes) noexcept { memory_limit_ = bytes; }

  std::size_t nbytes() const noexcept {
    std::size_t bytes = sizeof(Machine) + log_.nbytes() + interpreter_.nbytes();
    for (const Table& table : program_.tables) bytes += table.nbytes();
    for (const Channel& channel : program_.channels) bytes += channel.nbytes();
    return bytes;
  }

  // Runs a procedure with row 0, 1, … of its columns; stops at the first that fails, or when a channel holds
  // `most_pending` rows or more.
  Outcome apply(std::size_t procedure, const std::vector<const Word*>& columns, std::size_t rows, Word first_update,
                std::size_t most_pending) {
    ++version_;
    const Procedure& called = program_.procedures[procedure];
    std::optional<Failure> failure;
    Prefetcher* const prefetcher = prefetcher_of(procedure, columns, rows);
    Word* const arguments = interpreter_.arguments();
    std::size_t i = 0;
    for (; i < rows && !holds(most_pending); ++i) {
      if (prefetcher != nullptr) prefetcher->advance(i);
      if (memory_limit_ && nbytes() > *memory_limit_) {
        failure = {i, {Fault::Kind::kMemory, "the state has reached its memory limit"}};
        break;
      }
      for (std::size_t c = 0; c < columns.size(); ++c) arguments[c] = columns[c][i];
      const Word update = static_cast<Word>(static_cast<std::uint64_t>(first_update) + i);
      if (const std::optional<Fault> fault = run_update(called, update)) {
        failure = {i, *fault};
        break;
      }
    }
    give_back();
    return {i, failure};
  }

  // Takes the first `rows` updates back: the last first, with the words in columns `weights` negated, and silently.
  std::optional<Failure> unapply(std::size_t procedure, const std::vector<const Word*>& columns, std::size_t rows,
                                 const std::vector<std::size_t>& weights) {
    ++version_;
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

  // Removes all rows; what the channels hold belongs to the old state, and goes too.
  void clear() {
    std::vector<Table> fresh;
    for (const Table& table : program_.tables) fresh.push_back(table.fresh());
    replace(std::move(fresh));
  }

  // Other tables of the same shapes.
  void replace(std::vector<Table> tables) noexcept {
    ++version_;
    for (std::size_t i = 0; i < tables.size(); ++i) program_.tables[i] = std::move(tables[i]);
    for (Channel& channel : program_.channels) channel.clear();
  }

 private:
  bool holds(std::size_t rows) const noexcept {
    for (const Channel& channel : program_.channels) {
      if (channel.size() >= rows) return true;
    }
    return false;
  }

  // After a batch: without rows, no memory stays but what a new machine has.
  void give_back() noexcept {
    bool empty = true;
    for (Table& table : program_.tables) {
      table.release_if_empty();
      empty = empty && table.size() == 0;
    }
    empty ? log_.release() : log_.give_back();
    interpreter_.give_back(empty);
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
    for (std::size_t i = 0; i < marks_.size(); ++i) marks_[i] = program_.channels[i].size();
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
    if (fault) undo();
    interpreter_.tidy();
    return fault;
  }

  void undo() noexcept {
    while (!log_.empty()) {
      const UndoLog::Header header = log_.pop_header();
      program_.tables[header.table].undo(header.kind, log_);
    }
    for (std::size_t i = 0; i < marks_.size(); ++i) program_.channels[i].truncate(marks_[i]);
  }

  Program program_;
  UndoLog log_;
  Interpreter interpreter_;
  std::vector<std::unique_ptr<Prefetcher>> prefetchers_;  // Of each procedure, once it has been applied to a batch.
  std::vector<std::size_t> marks_;  // The channels' sizes when the update began.
  bool silent_ = false;
  std::uint64_t version_ = 0;
  std::optional<std::size_t> memory_limit_;
};

}  // namespace everview

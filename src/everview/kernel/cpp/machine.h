// The machine: a program's state, and the interpreter that changes it.
#pragma once

#include <bit>
#include <optional>

#include "decoder.h"
#include "nest.h"
#include "prefetch.h"

namespace everview {

// Runs procedures, update by update. An update that fails is undone before the machine says so. Not for two threads at
// a time. Its recursion follows the nesting of the program, never the data.
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

  explicit Machine(Program program) : program_(std::move(program)) {
    marks_.resize(program_.channels.size());
    prefetchers_.resize(program_.procedures.size());
    std::size_t most = 0;
    for (const Procedure& procedure : program_.procedures) most = std::max(most, procedure.stack);
    stack_.make_room(most);
  }
  Machine(const Machine&) = delete;
  Machine& operator=(const Machine&) = delete;

  const Program& program() const noexcept { return program_; }
  const UndoLog& log() const noexcept { return log_; }
  Channel& channel(std::size_t number) noexcept { return program_.channels[number]; }
  std::uint64_t steps() const noexcept { return steps_; }
  std::uint64_t version() const noexcept { return version_; }  // Another one after every change.
  std::optional<std::size_t> memory_limit() const noexcept { return memory_limit_; }
  void set_memory_limit(std::optional<std::size_t> bytes) noexcept { memory_limit_ = bytes; }

  std::size_t nbytes() const noexcept {
    std::size_t bytes = sizeof(Machine) + log_.nbytes() + stack_.nbytes() + copies_.nbytes();
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
    std::size_t i = 0;
    for (; i < rows && !holds(most_pending); ++i) {
      if (prefetcher != nullptr) prefetcher->advance(i);
      if (memory_limit_ && nbytes() > *memory_limit_) {
        failure = {i, {Fault::Kind::kMemory, "the state has reached its memory limit"}};
        break;
      }
      for (std::size_t c = 0; c < columns.size(); ++c) stack_[c] = columns[c][i];
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
    std::optional<Failure> failure;
    for (std::size_t i = rows; i-- > 0;) {
      for (std::size_t c = 0; c < columns.size(); ++c) stack_[c] = columns[c][i];
      bool overflow = false;
      for (const std::size_t weight : weights) {
        overflow |= __builtin_sub_overflow(Word{0}, stack_[weight], &stack_[weight]);
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
  using Op = Instruction::Op;

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
    empty ? copies_.release() : copies_.give_back();
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

  // One update, whole or not at all; its arguments are on the stack.
  std::optional<Fault> run_update(const Procedure& procedure, Word update) {
    log_.clear();
    copies_.resize(0);
    for (std::size_t i = 0; i < marks_.size(); ++i) marks_[i] = program_.channels[i].size();
    std::optional<Fault> fault;
    try {
      update_ = update;
      run(procedure, stack_.data());
    } catch (const Fault& thrown) {
      fault = thrown;
    } catch (const std::bad_alloc&) {
      fault = Fault{Fault::Kind::kMemory, "there is no memory left"};
    } catch (const std::length_error&) {
      fault = Fault{Fault::Kind::kMemory, "a table is full"};
    }
    if (fault) undo();
    for (Table& table : program_.tables) table.tidy();
    return fault;
  }

  void undo() noexcept {
    while (!log_.empty()) {
      const UndoLog::Header header = log_.pop_header();
      program_.tables[header.table].undo(header.kind, log_);
    }
    for (std::size_t i = 0; i < marks_.size(); ++i) program_.channels[i].truncate(marks_[i]);
  }

  // The parameters are in the first registers.
  void run(const Procedure& procedure, Word* registers) {
    std::fill(registers + procedure.parameters, registers + procedure.registers, 0);
    const Frame frame{registers, update_};
    run(procedure.body, frame, registers + procedure.registers);
  }

  void run(const Block& block, const Frame& frame, Word* stack) {
    for (const Instruction& instruction : block) execute(instruction, frame, stack);
  }

  void execute(const Instruction& i, const Frame& frame, Word* stack) {
    Word* const registers = frame.registers;
    ++steps_;
    switch (i.op) {
      case Op::kCompute:
        registers[i.reg] = compute(i.detail, read(i.operands[0], frame), read(i.operands[1], frame));
        break;
      case Op::kFind: {
        ++steps_;
        const KeyWords key(i.operands, frame);
        const Row row = i.table->find(key.data());
        if (row != kNoRow) registers[i.reg] = row;
        run(row != kNoRow ? i.first : i.second, frame, stack);
        break;
      }
      case Op::kInsert: {
        steps_ += change_steps(*i.table);
        const KeyWords key(i.operands, frame);
        const Row row = i.table->insert(key.data(), log_);
        if (row == kNoRow) fail_program("a row was to be inserted whose key is there already");
        registers[i.reg] = row;
        break;
      }
      case Op::kRemove:
        steps_ += change_steps(*i.table);
        i.table->remove(row_in(registers[i.reg], *i.table), log_);
        break;
      case Op::kStore: {
        const Word word = read(i.operands[0], frame);
        i.table->store(row_in(registers[i.reg], *i.table), i.number, word, log_);
        break;
      }
      case Op::kSetLevel:
        i.table->set_level(row_in(registers[i.reg], *i.table), i.detail, log_);
        break;
      case Op::kGetLevel:
        registers[i.reg] = i.table->level(row_in(registers[i.row], *i.table));
        break;
      case Op::kCount: {
        ++steps_;
        if (i.own_group) {
          const Row row = row_in(registers[i.operands[0].reg], *i.table);
          registers[i.reg] = static_cast<Word>(i.table->group_size_of(i.number, row, i.detail));
          break;
        }
        const KeyWords key(i.operands, frame);
        registers[i.reg] = static_cast<Word>(i.table->group(i.number, key.data(), i.detail, log_).size());
        break;
      }
      case Op::kIf: {
        const bool holds = test_words(i.detail, read(i.operands[0], frame), read(i.operands[1], frame));
        run(holds ? i.first : i.second, frame, stack);
        break;
      }
      case Op::kEach:
        each(i, frame, stack);
        break;
      case Op::kScan: {
        const Loop& loop = i.nest.loops[0];
        ++steps_;
        for (const Row row : rows_of(loop, frame, log_)) {
          ++steps_;
          registers[loop.reg] = row;
          run(i.first, frame, stack);
        }
        break;
      }
      case Op::kEmit:
        if (!silent_) emit(i, frame);
        break;
      case Op::kCall: {
        for (std::size_t a = 0; a < i.operands.size(); ++a) stack[a] = read(i.operands[a], frame);
        run(program_.procedures[i.number], stack);
        break;
      }
      case Op::kSelect: {
        steps_ += ordered_steps(*i.table);
        const KeyWords key(i.operands, frame);
        const std::size_t width = i.operands.size() - 1;
        const OrderedIndex& order = i.table->orders()[i.number];
        const Row row = order.select(key.data(), width, key.data()[width], i.table->view());
        if (row != kNoRow) registers[i.reg] = row;
        run(row != kNoRow ? i.first : i.second, frame, stack);
        break;
      }
      case Op::kRank: {
        steps_ += ordered_steps(*i.table);
        const Row row = row_in(registers[i.row], *i.table);
        registers[i.reg] = to_word(i.table->orders()[i.number].rank(row, i.width, i.table->view()));
        break;
      }
      case Op::kSize: {
        steps_ += ordered_steps(*i.table);
        const KeyWords key(i.operands, frame);
        const OrderedIndex& order = i.table->orders()[i.number];
        registers[i.reg] = to_word(order.size(key.data(), i.operands.size(), i.table->view()));
        break;
      }
      case Op::kNest:
        if (silent_) break;
        walk_.begin(i.nest, frame, log_);
        walk_.run(&program_.channels[i.number], std::numeric_limits<std::size_t>::max());
        steps_ += walk_.take_steps() - 1;
        break;
    }
  }

  static Word compute(std::uint8_t operation, Word a, Word b) {
    Word result = 0;
    const bool overflow = operation == 0   ? __builtin_add_overflow(a, b, &result)
                          : operation == 1 ? __builtin_sub_overflow(a, b, &result)
                                           : __builtin_mul_overflow(a, b, &result);
    if (overflow) fail_overflow();
    return result;
  }

  static Word to_word(OrderedIndex::Sum sum) {
    if (sum > std::numeric_limits<Word>::max()) fail_overflow();
    return static_cast<Word>(sum);
  }

  static std::uint64_t change_steps(const Table& table) noexcept {
    const std::size_t orders = table.orders().size();
    return 1 + table.index_count() + (orders == 0 ? 0 : orders * ordered_steps(table));
  }

  // What a way down an ordered index costs.
  static std::uint64_t ordered_steps(const Table& table) noexcept {
    return static_cast<std::uint64_t>(std::bit_width(table.size()));
  }

  // The rows are copied, as the body may move them within their groups.
  void each(const Instruction& i, const Frame& frame, Word* stack) {
    const Loop& loop = i.nest.loops[0];
    const std::span<const Row> rows = rows_of(loop, frame, log_);
    const std::size_t begin = copies_.size();
    copies_.make_room(rows.size());
    std::copy(rows.begin(), rows.end(), copies_.end());
    const std::size_t end = begin + rows.size();
    copies_.resize(end);
    ++steps_;
    for (std::size_t at = begin; at < end; ++at) {
      ++steps_;
      frame.registers[loop.reg] = copies_[at];
      run(i.first, frame, stack);
    }
    copies_.resize(begin);
  }

  void emit(const Instruction& i, const Frame& frame) {
    Channel& channel = program_.channels[i.number];
    channel.make_room(1);
    for (std::size_t c = 0; c < i.nest.outputs.size(); ++c) *channel.end(c) = read(i.nest.outputs[c], frame);
    channel.add_rows(1);
  }

  Program program_;
  UndoLog log_;
  Array<Word> stack_;
  Array<Row> copies_;  // A stack of the rows that `Each` loops walk over.
  Walk walk_;
  std::vector<std::unique_ptr<Prefetcher>> prefetchers_;  // Of each procedure, once it has been applied to a batch.
  std::vector<std::size_t> marks_;  // The channels' sizes when the update began.
  Word update_ = 0;
  bool silent_ = false;
  std::uint64_t steps_ = 0;
  std::uint64_t version_ = 0;
  std::optional<std::size_t> memory_limit_;
};

// Lists a result. It holds for as long as the machine's version stays as it was.
class CursorState {
 public:
  CursorState(const Machine& machine, const CursorPlan& plan, const Word* arguments)
      : version_(machine.version()), registers_(plan.registers), frame_{registers_.data(), 0} {
    std::copy_n(arguments, plan.parameters, registers_.data());
    walk_.begin(plan.nest, frame_, machine.log());
  }
  CursorState(const CursorState&) = delete;
  CursorState& operator=(const CursorState&) = delete;

  std::uint64_t version() const noexcept { return version_; }
  std::size_t run(Channel* out, std::size_t limit) { return walk_.run(out, limit); }

 private:
  std::uint64_t version_;
  std::vector<Word> registers_;
  Frame frame_;
  Walk walk_;
};

}  // namespace everview

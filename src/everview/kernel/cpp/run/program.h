// A program, decoded: what `everview/kernel/program.py` defines, with numbers for names.
#pragma once

#include <vector>

#include "../arrow/channel.h"
#include "code.h"
#include "../store/table.h"
#include "../store/wide.h"

namespace everview {

struct Operand {
  enum class Source : std::uint8_t { kRegister, kLiteral, kField, kUpdate };

  Source source = Source::kLiteral;
  std::uint32_t reg = 0;     // The word, or the row whose word it is.
  std::uint32_t column = 0;  // Of the row's words, the key first.
  const Table* table = nullptr;
  Word literal = 0;

  // Whether the operand is read off the row, or is the word, in this register.
  bool reads(std::uint32_t other) const noexcept {
    return source != Source::kLiteral && source != Source::kUpdate && reg == other;
  }
};

// The checked product of its factors; a single operand is one of one factor.
struct Output {
  std::vector<Operand> factors;
  std::vector<std::size_t> widths;  // Of a product of several words or of factors that have several: each factor's.
  std::size_t words = 1;            // Of the output itself,
  std::size_t column = 0;           // which begin in this column.
  bool constant = false;    // In a nest: the same whatever the rows,
  bool of_values = false;   // or would be if what it takes from the rows were 1 throughout.
  std::size_t leading = 0;  // In a nest: how many factors come before the first that the innermost loop changes.

  bool is_wide() const noexcept { return !widths.empty(); }
};

inline std::size_t columns_of(const std::vector<Output>& outputs) noexcept {
  return outputs.empty() ? 0 : outputs.back().column + outputs.back().words;
}

inline constexpr std::size_t kMostAhead = 4;  // The most words in a key that loops find ahead.

// A loop over the rows of a group on some levels; or, in a cursor, of a group of an ordered index, in order.
struct Loop {
  std::uint32_t reg = 0;
  const Table* table = nullptr;
  std::uint32_t index = 0;
  Levels levels;
  std::vector<Operand> key;
  bool ordered = false;        // Then `index` is that of an ordered one,
  bool descending = false;
  Operand start;               // and this many ranks are passed over.
  bool own_group = false;      // That of the row in the key's register.
  bool whole = false;          // All rows of the table.
  bool looks_ahead = false;    // In a nest: its groups for the next rows of the outer loop can be found together.
  std::uint64_t outdates = 0;  // In a nest: the inner loops (as bits) whose groups change when this one goes on.
};

// Whether a group's key is what a row of the same table has in the index's columns: then it is the row's own group.
inline bool is_own_group(const Table& table, std::uint32_t index, const std::vector<Operand>& key) noexcept {
  const std::vector<std::uint32_t>& columns = table.columns(index);
  for (std::size_t i = 0; i < key.size(); ++i) {
    if (key[i].source != Operand::Source::kField || key[i].table != &table) return false;
    if (key[i].reg != key[0].reg || key[i].column != columns[i]) return false;
  }
  return !key.empty();
}

// Loops within loops, with outputs in the innermost. What deltas and cursors are made of.
struct Nest {
  std::vector<Loop> loops;
  std::vector<Output> outputs;
  bool product = false;  // The two innermost loops do not depend on each other: together they give all pairs.
};

struct Instruction;
using Block = std::vector<Instruction>;

struct Instruction {
  enum class Op : std::uint8_t {
    kCompute, kFind, kInsert, kRemove, kStore, kSetLevel, kGetLevel, kCount, kIf, kEach, kScan, kEmit, kCall, kSelect,
    kRank, kSize, kAdd, kSilent, kWideCompute, kWideIf, kBefore,
    kNest,  // Not in the encoding: scans within scans around one emit.
  };

  Op op = Op::kCompute;
  std::uint8_t detail = 0;     // The operation, test, level, or levels in six bits.
  std::uint32_t reg = 0;       // The target, or the row.
  std::uint32_t number = 0;    // The value column, index, channel or procedure; of wide operands, the first one's words.
  std::uint32_t row = 0;       // kGetLevel, kRank: the row.
  std::uint32_t width = 0;     // kRank, kBefore: how many columns make the group; kWideCompute: how many words the target has.
  bool own_group = false;      // kCount: as of a loop,
  bool whole = false;          // and this.
  bool vanishes = false;       // kAdd: the row goes when its first value comes to 0.
  Table* table = nullptr;
  std::vector<Operand> operands;
  Block first, second, third;  // Found and missing, then and otherwise; a loop's or silent body; appeared, vanished, otherwise.
  Nest nest;                   // kEmit, kNest: the outputs; kNest, kEach, kScan: the loops.
};

struct Procedure {
  std::uint32_t parameters = 0;
  std::uint32_t registers = 0;
  std::size_t stack = 0;  // Registers of this procedure and of the deepest chain of those it calls.
  std::uint32_t entry = 0;  // Its first line.
  bool reads_only = false;  // Neither it nor what it calls changes a table.
  std::vector<std::uint32_t> changes;  // The tables that it changes, or what it calls,
  std::vector<std::uint32_t> emits;    // and the channels that rows come to.
  Block body;
};

// A function, and what it is asked with: its procedure gives one row to the channel.
struct Question {
  std::uint32_t procedure = 0;
  std::uint32_t channel = 0;
  std::vector<Operand> arguments;
};

struct CursorNode;

// A product of steps, and what it gives for each row.
struct CursorPart {
  std::vector<CursorNode> steps;
  std::vector<Output> outputs;
  Question test;  // Of a union's member: whether it has a row.
};

// A step of a cursor (cursor_tree.h).
struct CursorNode {
  enum class Kind : std::uint8_t { kLoop, kGuard, kAsk, kConcat, kUnion, kBuckets };

  Kind kind = Kind::kLoop;
  Loop loop;                         // kLoop, kBuckets.
  std::uint8_t test = 0;             // kGuard: the test,
  std::vector<Operand> operands;     // and what it compares.
  Question question;                 // kAsk.
  std::vector<std::uint32_t> words;  // The registers that it sets, but for loops.
  std::vector<CursorPart> parts;     // kConcat, kUnion; kBuckets: one.
};

struct GuardedNest {
  std::vector<CursorNode> guards;
  Nest nest;
};

// A cursor: nests one after the other, which run at one go; or else a product of steps.
struct CursorPlan {
  std::uint32_t parameters = 0;
  std::uint32_t registers = 0;
  std::vector<Output> outputs;
  std::vector<GuardedNest> nests;
  std::vector<CursorNode> steps;       // None, if there are nests.
  std::vector<std::uint32_t> answers;  // The channels of the functions that it asks.
  std::vector<std::uint32_t> reads;    // The tables that it, or such a function, reads.
};

struct Program {
  std::vector<Table> tables;
  std::vector<Channel> channels;
  std::vector<Procedure> procedures;
  std::vector<CursorPlan> cursors;
  std::vector<Line> lines;          // Of all procedures,
  std::vector<Word> wide;           // the literals in them that take more than 32 bits,
  std::vector<const Instruction*> nests;
  std::size_t most_slots = 0;       // and the most operands that one of them has.
  std::size_t depth = 0;            // Of blocks within blocks, calls included.
  std::uint64_t fingerprint = 0;  // Of the encoding: snapshots fit the program they were taken from.
};

}  // namespace everview

// Runs loops within loops: where deltas and cursors spend their time.
#pragma once

#include "../arrow/gather.h"
#include "../run/program.h"

namespace everview {

// Why an update could not be done.
struct Fault {
  enum class Kind : std::uint8_t { kOverflow, kProgram, kMemory };

  Kind kind;
  const char* message;
};

[[noreturn]] inline void fail_overflow() { throw Fault{Fault::Kind::kOverflow, "a word would leave 64 bits"}; }
[[noreturn]] inline void fail_wide_overflow() { throw Fault{Fault::Kind::kOverflow, "a number would leave its words"}; }
[[noreturn]] inline void fail_program(const char* message) { throw Fault{Fault::Kind::kProgram, message}; }

// What operands are read from.
struct Frame {
  Word* registers;
  Word update;
};

inline Row row_in(Word handle, const Table& table) {
  if (static_cast<std::uint64_t>(handle) >= table.size()) fail_program("a register holds no row of the table");
  return static_cast<Row>(handle);
}

inline Word read(const Operand& operand, const Frame& frame) {
  switch (operand.source) {
    case Operand::Source::kRegister:
      return frame.registers[operand.reg];
    case Operand::Source::kLiteral:
      return operand.literal;
    case Operand::Source::kField:
      return operand.table->words(row_in(frame.registers[operand.reg], *operand.table))[operand.column];
    case Operand::Source::kUpdate:
      return frame.update;
  }
  __builtin_unreachable();
}

inline Word multiply(Word a, Word b) {
  Word product = 0;
  if (__builtin_mul_overflow(a, b, &product)) fail_overflow();
  return product;
}

// From left to right, as the reference does: where a product overflows is part of the semantics.
inline Word read(const Output& output, const Frame& frame) {
  Word product = read(output.factors[0], frame);
  for (std::size_t i = 1; i < output.factors.size(); ++i) product = multiply(product, read(output.factors[i], frame));
  return product;
}

// A product so far, times one more factor: it must stay within so many words.
inline Wide multiply_within(const Wide& product, const Wide& factor, std::size_t words) {
  const WideResult result = multiply(product, factor);
  if (result.size > words) fail_wide_overflow();
  return {result.words, result.size};
}

// The same with some of an output's factors, in the order in which they stand.
inline Wide multiply_factors(Wide product, const Output& output, std::size_t from, std::size_t to, const Frame& frame) {
  const Operand* operand = output.factors.data();
  for (std::size_t i = 0; i < to; ++i) {
    if (i >= from) {
      Word words[kMostWords];
      for (std::size_t word = 0; word < output.widths[i]; ++word) words[word] = read(operand[word], frame);
      product = multiply_within(product, Wide(words, output.widths[i]), output.words);
    }
    operand += output.widths[i];
  }
  return product;
}

// One row of all outputs, into room that is made.
inline void write_outputs(const std::vector<Output>& outputs, const Frame& frame, Channel& out) {
  for (const Output& output : outputs) {
    if (!output.is_wide()) {
      *out.end(output.column) = read(output, frame);
      continue;
    }
    const Wide product = multiply_factors(Wide(1), output, 0, output.widths.size(), frame);
    for (std::size_t word = 0; word < output.words; ++word) *out.end(output.column + word) = product.word(word);
  }
}

// A key's words: a few on the stack, or else on the heap.
class KeyWords {
 public:
  KeyWords(const std::vector<Operand>& operands, const Frame& frame) {
    if (operands.size() > std::size(few_)) {
      many_ = std::make_unique<Word[]>(operands.size());
      words_ = many_.get();
    }
    for (std::size_t i = 0; i < operands.size(); ++i) words_[i] = read(operands[i], frame);
  }
  KeyWords(const KeyWords&) = delete;
  KeyWords& operator=(const KeyWords&) = delete;

  const Word* data() const noexcept { return words_; }

 private:
  Word few_[8];
  Word* words_ = few_;
  std::unique_ptr<Word[]> many_;
};

inline std::span<const Row> rows_of(const Loop& loop, const Frame& frame) {
  if (loop.own_group) {
    const Row row = row_in(frame.registers[loop.key[0].reg], *loop.table);
    return loop.table->group_of(loop.index, row, loop.levels);
  }
  const KeyWords key(loop.key, frame);
  return loop.table->group(loop.index, key.data(), loop.levels);
}

// A nest on its way: each loop's rows and how far it has come. It can stop after any row and go on later, as long as
// nothing changes.
class Walk {
 public:
  // `frame` must stay where it is.
  void begin(const Nest& nest, const Frame& frame) {
    nest_ = &nest;
    frame_ = &frame;
    fresh_ = 0;
    depth_ = 0;
    done_ = false;
    if (levels_.size() < nest.loops.size()) levels_.resize(nest.loops.size());
    for (std::size_t i = 0; i < nest.loops.size(); ++i) {
      levels_[i].ahead_begin = levels_[i].ahead_end = 0;
      levels_[i].next = kNoRow;
    }
    constant_.clear();
    varying_.clear();
    for (std::uint32_t i = 0; i < nest.outputs.size(); ++i) {
      (is_constant(nest.outputs[i]) ? constant_ : varying_).push_back(i);
    }
    if (!nest.loops.empty()) open(0);
  }

  bool done() const noexcept { return done_; }
  std::uint64_t take_steps() noexcept { return std::exchange(steps_, 0); }

  // Gives up to `limit` rows to `out` (skips them, if it is null) and returns how many. It stays by itself: put in place of
  // its calls, in the interpreter's loop and in cursors, it is a tenth slower in both.
  [[gnu::noinline]] std::size_t run(Channel* out, std::size_t limit) {
    if (done_ || limit == 0) return 0;
    const std::size_t given = run_loops(out, limit);
    if (out != nullptr && given != 0) {
      for (const std::uint32_t number : constant_) {
        const Output& output = nest_->outputs[number];
        if (output.is_wide()) {
          const Wide product = multiply_factors(Wide(1), output, 0, output.widths.size(), *frame_);
          for (std::size_t word = 0; word < output.words; ++word) {
            std::fill_n(out->end(output.column + word) - given, given, product.word(word));
          }
        } else {
          std::fill_n(out->end(output.column) - given, given, read(output, *frame_));
        }
      }
    }
    return given;
  }

 private:
  struct Level {
    std::span<const Row> rows;
    std::size_t at = 0;
    // Groups looked up ahead, for these positions of the next outer loop.
    std::size_t ahead_begin = 0;
    std::size_t ahead_end = 0;
    std::span<const Row> ahead[GroupIndex::kMany];
    // Of a loop in order, or over a whole table, `rows` is a piece; this row begins the next one.
    Row next = kNoRow;
    std::vector<Row> piece;
  };

  // Whether all rows will have the same word: a product of weights all of which are 1 is one.
  static bool is_constant(const Output& output) noexcept {
    if (output.constant || !output.of_values) return output.constant;
    for (const Operand& operand : output.factors) {
      if (operand.source == Operand::Source::kField && !operand.table->all_one(operand.column)) return false;
    }
    return true;
  }

  std::size_t run_loops(Channel* out, std::size_t limit) {
    if (nest_->loops.empty()) {
      done_ = true;
      if (out != nullptr) write(*out, {}, 1);
      return 1;
    }
    const Loop* const loops = nest_->loops.data();
    const std::size_t innermost = nest_->loops.size() - 1;
    std::size_t given = 0;
    for (;;) {
      Level& level = levels_[depth_];
      if (depth_ == innermost) {
        const std::size_t count = std::min<std::size_t>(level.rows.size() - level.at, limit - given);
        if (count != 0) {
          if (out != nullptr) write(*out, level.rows.data() + level.at, count);
          level.at += count;
          given += count;
          steps_ += 2 * count;
          frame_->registers[loops[depth_].reg] = level.rows[level.at - 1];
        }
        if (level.at < level.rows.size()) return given;
        if (given < limit && go_on(depth_)) continue;
        if (level.next != kNoRow) return given;
      } else if (level.at < level.rows.size()) {
        if (given == limit) return given;
        if (nest_->product && depth_ + 1 == innermost) {
          const std::size_t pairs = run_product(out, limit - given);
          given += pairs;
          if (pairs != 0) continue;
        } else if (depth_ + 1 == innermost && loops[innermost].looks_ahead && run_ahead(out, limit, given)) {
          continue;
        }
        frame_->registers[loops[depth_].reg] = level.rows[level.at++];
        fresh_ &= ~loops[depth_].outdates;
        ++steps_;
        open(++depth_);
        continue;
      } else if (go_on(depth_)) {
        continue;
      }
      if (depth_ == 0) {
        done_ = true;
        return given;
      }
      --depth_;
    }
  }

  // What the two innermost loops give for those rows of the outer one whose groups are found together, column by column:
  // most groups are small, and taking each by itself costs more than its rows. False if there are more rows than `limit`.
  bool run_ahead(Channel* out, std::size_t limit, std::size_t& given) {
    Level& outer = levels_[depth_];
    Level& inner = levels_[depth_ + 1];
    if (outer.at >= inner.ahead_end) look_ahead(depth_ + 1, outer.at);
    const Groups groups(inner.ahead + (outer.at - inner.ahead_begin), inner.ahead + (inner.ahead_end - inner.ahead_begin));
    const Row* const outers = outer.rows.data() + outer.at;
    std::size_t rows = 0;
    const std::span<const Row>* last = nullptr;
    for (const std::span<const Row>& group : groups) {
      rows += group.size();
      if (!group.empty()) last = &group;
    }
    if (rows > limit - given) return false;
    const Loop& loop = nest_->loops[depth_];
    if (out != nullptr && rows != 0) {
      out->make_room(rows);
      for (const std::uint32_t number : varying_) {
        const Output& output = nest_->outputs[number];
        if (output.is_wide()) {
          write_wide_groups(output, loop.reg, outers, groups, *out);
        } else {
          write_groups(output, loop.reg, outers, groups, out->end(output.column));
        }
      }
      out->add_rows(rows);
    }
    outer.at += groups.size();
    given += rows;
    steps_ += 3 * groups.size() + 2 * rows;
    frame_->registers[loop.reg] = outers[groups.size() - 1];
    if (last != nullptr) frame_->registers[nest_->loops[depth_ + 1].reg] = last->back();
    return true;
  }

  // One column of several groups, each that of an outer row.
  void write_groups(const Output& output, std::uint32_t reg, const Row* outers, Groups groups, Word* words) const {
    const bool single = output.factors.size() == 1;
    const Operand& first = output.factors[0];
    if (single && output.leading == 1 && first.source == Operand::Source::kField && first.reg == reg) {
      const RowsView rows = first.table->view();
      for (std::size_t i = 0; i < groups.size(); words += groups[i++].size()) {
        const Word word = rows[outers[i]][first.column];
        for (std::size_t j = 0; j < groups[i].size(); ++j) words[j] = word;
      }
    } else if (single && output.leading == 0 && first.source == Operand::Source::kField) {
      gather(groups, first.table->view(), first.column, words);
    } else {
      for (std::size_t i = 0; i < groups.size(); words += groups[i++].size()) {
        frame_->registers[reg] = outers[i];
        if (!groups[i].empty()) write_column(output, leading_factor(output), groups[i].data(), groups[i].size(), words);
      }
    }
  }

  // All pairs of the two innermost loops' rows that are left, column by column, in the order in which the loops would
  // give them; or none, if there are more than `limit` or too few to gain by it.
  std::size_t run_product(Channel* out, std::size_t limit) {
    Level& outer = levels_[depth_];
    const std::size_t rows = outer.rows.size() - outer.at;
    if (rows < 2) return 0;
    open(depth_ + 1);
    Level& inner = levels_[depth_ + 1];
    const std::size_t each = inner.rows.size();
    if (each == 0 || rows > limit / each || inner.next != kNoRow) return 0;
    const std::uint32_t reg = nest_->loops[depth_].reg;
    if (out != nullptr) {
      out->make_room(rows * each);
      for (const std::uint32_t number : varying_) {
        const Output& output = nest_->outputs[number];
        if (output.is_wide()) {
          write_wide_pairs(output, reg, outer.rows.subspan(outer.at), inner.rows, *out);
        } else {
          write_pairs(output, reg, outer.rows.subspan(outer.at), inner.rows, out->end(output.column));
        }
      }
      out->add_rows(rows * each);
    }
    outer.at += rows;
    inner.at = each;
    fresh_ &= ~nest_->loops[depth_].outdates;
    steps_ += rows + 2 * rows * each;
    frame_->registers[reg] = outer.rows.back();
    frame_->registers[nest_->loops[depth_ + 1].reg] = inner.rows.back();
    return rows * each;
  }

  // One column of all pairs. The inner rows' words are worked out anew only where the outer row makes a difference.
  void write_pairs(const Output& output, std::uint32_t reg, std::span<const Row> outer, std::span<const Row> inner,
                   Word* words) const {
    const std::size_t each = inner.size();
    if (output.factors.size() == 1 && output.leading == 0) {
      load(output.factors[0], inner.data(), each, words);
      return repeat(words, each, outer.size());
    }
    Word before = 0;
    for (std::size_t i = 0; i < outer.size(); ++i, words += each) {
      frame_->registers[reg] = outer[i];
      const Word factor = leading_factor(output);
      if (i != 0 && factor == before && output.leading + 1 >= output.factors.size()) {
        std::copy_n(words - each, each, words);
      } else {
        write_column(output, factor, inner.data(), each, words);
      }
      before = factor;
    }
  }

  static void repeat(Word* words, std::size_t count, std::size_t times) noexcept {
    const std::size_t all = count * times;
    for (std::size_t done = count; done < all;) {
      const std::size_t more = std::min(done, all - done);
      std::copy_n(words, more, words + done);
      done += more;
    }
  }

  void open(std::size_t depth) {
    Level& level = levels_[depth];
    level.at = 0;
    if (depth + 1 < nest_->loops.size()) levels_[depth + 1].ahead_end = 0;  // It began with other rows.
    const std::uint64_t bit = depth < 64 ? std::uint64_t{1} << depth : 0;
    const Loop& loop = nest_->loops[depth];
    if (loop.ordered) return open_ordered(depth);
    if ((fresh_ & bit) != 0 && (!loop.whole || level.rows.size() == loop.table->size())) return;
    if ((fresh_ & bit) == 0) steps_ += 2;
    fresh_ |= bit;
    if (loop.whole) {
      level.rows = {};
      level.next = loop.table->size() == 0 ? kNoRow : 0;
      go_on(depth);
    } else if (depth == 0 || !loop.looks_ahead) {
      level.rows = rows_of(loop, *frame_);
    } else {
      const std::size_t outer_at = levels_[depth - 1].at - 1;
      if (outer_at < level.ahead_begin || outer_at >= level.ahead_end) look_ahead(depth, outer_at);
      level.rows = level.ahead[outer_at - level.ahead_begin];
    }
  }

  void open_ordered(std::size_t depth) {
    const Loop& loop = nest_->loops[depth];
    Level& level = levels_[depth];
    steps_ += 2;
    const KeyWords key(loop.key, *frame_);
    const Word start = read(loop.start, *frame_);
    const OrderedIndex& order = loop.table->orders()[loop.index];
    level.rows = {};
    level.next = start < 0 ? kNoRow
                           : order.select(key.data(), loop.key.size(), loop.descending ? -1 - start : start,
                                          loop.table->view());
    go_on(depth);
  }

  // Takes the next piece of a loop in order or over a whole table; false if there is none.
  bool go_on(std::size_t depth) {
    const Loop& loop = nest_->loops[depth];
    Level& level = levels_[depth];
    if (level.next == kNoRow) return false;
    level.piece.clear();
    loop.whole ? take_rows(*loop.table, level) : take_in_order(loop, level);
    level.rows = level.piece;
    level.at = 0;
    if (depth + 1 < nest_->loops.size()) levels_[depth + 1].ahead_end = 0;  // Other rows than it looked ahead for.
    return true;
  }

  static void take_in_order(const Loop& loop, Level& level) {
    constexpr std::size_t kPiece = 256;
    const OrderedIndex& order = loop.table->orders()[loop.index];
    while (level.next != kNoRow && level.piece.size() < kPiece) {
      level.piece.push_back(level.next);
      level.next = order.next(level.next, loop.descending, loop.key.size(), loop.table->view());
    }
  }

  static void take_rows(const Table& table, Level& level) {
    constexpr std::size_t kPiece = 4096;
    level.piece.resize(std::min(kPiece, table.size() - level.next));
    for (Row& row : level.piece) row = level.next++;
    if (level.next == table.size()) level.next = kNoRow;
  }

  // Finds the groups for the next rows of the outer loop together.
  void look_ahead(std::size_t depth, std::size_t from) {
    const Loop& loop = nest_->loops[depth];
    const std::uint32_t outer = nest_->loops[depth - 1].reg;
    const Level& above = levels_[depth - 1];
    Level& level = levels_[depth];
    const std::size_t count = std::min(GroupIndex::kMany, above.rows.size() - from);
    const std::size_t width = loop.key.size();
    Word keys[GroupIndex::kMany * kMostAhead];
    for (std::size_t c = 0; c < width; ++c) {
      const Operand& operand = loop.key[c];
      if (operand.reads(outer)) {
        const RowsView rows = operand.table->view();
        for (std::size_t i = 0; i < count; ++i) keys[i * width + c] = rows[above.rows[from + i]][operand.column];
      } else {
        const Word word = read(operand, *frame_);
        for (std::size_t i = 0; i < count; ++i) keys[i * width + c] = word;
      }
    }
    loop.table->groups(loop.index, keys, count, loop.levels, level.ahead);
    level.ahead_begin = from;
    level.ahead_end = from + count;
  }

  // Appends the outputs for `count` rows of the innermost loop, a column at a time; constant ones come in the end.
  void write(Channel& out, const Row* rows, std::size_t count) {
    out.make_room(count);
    for (const std::uint32_t number : varying_) {
      const Output& output = nest_->outputs[number];
      if (output.is_wide()) {
        write_wide(output, rows, count, out, 0);
      } else if (nest_->loops.empty()) {
        *out.end(output.column) = read(output, *frame_);
      } else {
        write_column(output, leading_factor(output), rows, count, out.end(output.column));
      }
    }
    out.add_rows(count);
  }

  // An output of several words, or of factors that have several, for rows of the innermost loop: from `at` rows after the
  // channel's end on. Row by row: where such outputs are listed, they are few, or most of their factors are 1.
  void write_wide(const Output& output, const Row* rows, std::size_t count, Channel& out, std::size_t at) const {
    const std::size_t factors = output.widths.size();
    const Wide leading = multiply_factors(Wide(1), output, 0, output.leading, *frame_);
    if (output.leading == factors) return fill_wide(output, leading, out, at, count);
    for (std::size_t i = 0; i < count; ++i) {
      if (!nest_->loops.empty()) frame_->registers[nest_->loops.back().reg] = rows[i];
      fill_wide(output, multiply_factors(leading, output, output.leading, factors, *frame_), out, at + i, 1);
    }
  }

  void write_wide_groups(const Output& output, std::uint32_t reg, const Row* outers, Groups groups, Channel& out) const {
    std::size_t at = 0;
    for (std::size_t i = 0; i < groups.size(); at += groups[i++].size()) {
      if (groups[i].empty()) continue;
      frame_->registers[reg] = outers[i];
      write_wide(output, groups[i].data(), groups[i].size(), out, at);
    }
  }

  void write_wide_pairs(const Output& output, std::uint32_t reg, std::span<const Row> outer, std::span<const Row> inner,
                        Channel& out) const {
    for (std::size_t i = 0; i < outer.size(); ++i) {
      frame_->registers[reg] = outer[i];
      write_wide(output, inner.data(), inner.size(), out, i * inner.size());
    }
  }

  static void fill_wide(const Output& output, const Wide& number, Channel& out, std::size_t at, std::size_t count) {
    for (std::size_t word = 0; word < output.words; ++word) {
      std::fill_n(out.end(output.column + word) + at, count, number.word(word));
    }
  }

  // The product of the factors that the innermost loop does not change.
  Word leading_factor(const Output& output) const {
    if (output.leading == 0) return 1;
    Word factor = read(output.factors[0], *frame_);
    for (std::size_t i = 1; i < output.leading; ++i) factor = multiply(factor, read(output.factors[i], *frame_));
    return factor;
  }

  void write_column(const Output& output, Word factor, const Row* rows, std::size_t count, Word* words) const {
    const std::vector<Operand>& factors = output.factors;
    if (output.leading == factors.size()) {
      for (std::size_t i = 0; i < count; ++i) words[i] = factor;
      return;
    }
    const Operand& first = factors[output.leading];
    load(first, rows, count, words);
    if (factor != 1) {
      // Neither leaves 32 bits, so the product stays within 64.
      const bool small = first.source == Operand::Source::kField && first.table->view().plain;
      small && is_narrow(factor) && factor != kLowestWord ? scale_small(words, count, factor) : scale(words, count, factor);
    }
    for (std::size_t i = output.leading + 1; i < factors.size(); ++i) {
      multiply_by(factors[i], nest_->loops.back().reg, rows, count, words);
    }
  }

  static void load(const Operand& operand, const Row* rows, std::size_t count, Word* words) {
    if (operand.source == Operand::Source::kRegister) {
      std::copy_n(rows, count, words);
      return;
    }
    const std::span<const Row> group(rows, count);
    gather({&group, 1}, operand.table->view(), operand.column, words);
  }

  static void scale_small(Word* words, std::size_t count, Word factor) noexcept {
    if (factor == -1) {
      for (std::size_t i = 0; i < count; ++i) words[i] = -words[i];
    } else {
      for (std::size_t i = 0; i < count; ++i) words[i] *= factor;
    }
  }

  static void scale(Word* words, std::size_t count, Word factor) {
    bool overflow = false;
    for (std::size_t i = 0; i < count; ++i) overflow |= __builtin_mul_overflow(words[i], factor, &words[i]);
    if (overflow) fail_overflow();
  }

  void multiply_by(const Operand& operand, std::uint32_t reg, const Row* rows, std::size_t count, Word* words) const {
    if (!operand.reads(reg)) return scale(words, count, read(operand, *frame_));
    constexpr std::size_t kChunk = 64;
    Word more[kChunk];
    bool overflow = false;
    for (std::size_t from = 0; from < count; from += kChunk) {
      const std::size_t size = std::min(kChunk, count - from);
      load(operand, rows + from, size, more);
      for (std::size_t i = 0; i < size; ++i) {
        overflow |= __builtin_mul_overflow(words[from + i], more[i], &words[from + i]);
      }
    }
    if (overflow) fail_overflow();
  }

  const Nest* nest_ = nullptr;
  std::vector<std::uint32_t> constant_, varying_;  // Its outputs that are the same in all rows, and the others.
  const Frame* frame_ = nullptr;
  std::vector<Level> levels_;
  std::uint64_t fresh_ = 0;  // The loops (as bits) whose rows still belong to the outer loops' rows.
  std::size_t depth_ = 0;
  bool done_ = true;
  std::uint64_t steps_ = 0;
};

}  // namespace everview

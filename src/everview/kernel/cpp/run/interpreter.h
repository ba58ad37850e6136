// The interpreter: runs the code of procedures over a program's tables.
#pragma once

#include <bit>
#include <cmath>
#include <optional>

#include "decoder.h"
#include "../cursor/nest.h"

namespace everview {

// What changes goes into the log, update by update; whoever calls undoes what a fault has left.
class Interpreter {
 public:
  Interpreter(Program& program, UndoLog& log) : program_(program), log_(log), words_(program.most_slots) {
    std::size_t most = 0;
    for (const Procedure& procedure : program.procedures) most = std::max(most, procedure.stack);
    stack_.resize(most);
    calls_.reserve(program.depth + 1);
    loops_.reserve(program.depth + 1);
    touched_.reserve(program.tables.size() + 1);
  }
  Interpreter(const Interpreter&) = delete;
  Interpreter& operator=(const Interpreter&) = delete;

  Word* arguments() noexcept { return stack_.data(); }
  std::uint64_t steps() const noexcept { return steps_; }
  std::size_t nbytes() const noexcept {
    return copies_.nbytes() + (stack_.size() + words_.size()) * sizeof(Word);
  }

  // Runs a procedure, whose parameters are in the first registers of the stack, to its end. Registers that hold nothing
  // yet have words of earlier updates: what reads one as a row is checked, and the verifier sees that nobody does.
  //
  // The contracts of the instructions: P is the line, P.reg and so on its fields, K the words of its slots from the first
  // on, T the table P.table. Every instruction of a program is one step, and every lookup and every row visited another.
  void run(const Procedure& procedure, Word update, bool in_silence) {
    update_ = update;
    std::size_t silent = in_silence ? 1 : 0;  // How many silent blocks are around what is running.
    const Line* const lines = program_.lines.data();
    Table* const tables = program_.tables.data();
    Word* const words = words_.data();
    const Line* pc = lines + procedure.entry;
    Word* registers = stack_.data();
    loops_.clear();
    calls_.clear();
    copies_.resize(0);
    StepCounter steps{steps_};
    const auto read = [&](const Slot& slot) __attribute__((always_inline)) -> Word { return read_slot(slot, registers); };
    // K, of which the first is number `from` of the slots; all words are read before anything is changed.
    const auto read_words = [&](const Line& i, std::size_t from) -> const Word* {
      const Slot* const slots = i.slots;
      for (std::size_t s = from; s < i.count; ++s) words[s] = read(slots[s]);
      return words + from;
    };
    for (;;) {
      const Line& i = *pc;
      switch (i.code) {
        // Sum, Difference, Product: registers[P.reg] <- K[0] + K[1], K[0] - K[1], K[0] * K[1].
        // Faults if that leaves 64 bits.
        case Code::kSum:
          ++steps.count;
          if (__builtin_add_overflow(read(i.slots[0]), read(i.slots[1]), &registers[i.reg])) fail_overflow();
          ++pc;
          break;
        case Code::kDifference:
          ++steps.count;
          if (__builtin_sub_overflow(read(i.slots[0]), read(i.slots[1]), &registers[i.reg])) fail_overflow();
          ++pc;
          break;
        case Code::kProduct:
          ++steps.count;
          registers[i.reg] = multiply(read(i.slots[0]), read(i.slots[1]));
          ++pc;
          break;

        // Divide, Remainder: registers[P.reg] <- K[0] / K[1], rounded down, or what is left, which has the sign of K[1].
        // Root: the largest word whose K[1]-th power is at most K[0]. Fault if K[1] is 0, or K[0] negative, or K[1] less
        // than 1, and if a quotient leaves 64 bits.
        case Code::kDivide:
          ++steps.count;
          registers[i.reg] = divide(read(i.slots[0]), read(i.slots[1]));
          ++pc;
          break;
        case Code::kRemainder:
          ++steps.count;
          registers[i.reg] = remainder(read(i.slots[0]), read(i.slots[1]));
          ++pc;
          break;
        case Code::kRoot:
          ++steps.count;
          registers[i.reg] = root(read(i.slots[0]), read(i.slots[1]));
          ++pc;
          break;

        // Float: registers[P.reg] <- K[0] + K[1], K[0] - K[1], K[0] * K[1], K[0] / K[1] of doubles, or K[0] copies of the double
        // K[1], as P.detail says. Faults if that is not finite, or by 0; zero is never negative.
        case Code::kFloat:
          ++steps.count;
          registers[i.reg] = calculate(i.detail, read(i.slots[0]), read(i.slots[1]));
          ++pc;
          break;

        // IfEqual, IfNotEqual, IfLess, IfAtMost: goes on with the next line if K[0] = K[1] (and so on) holds, or else
        // with line P.jump.
        case Code::kIfEqual:
          ++steps.count;
          pc = read(i.slots[0]) == read(i.slots[1]) ? pc + 1 : lines + i.jump;
          break;
        case Code::kIfNotEqual:
          ++steps.count;
          pc = read(i.slots[0]) != read(i.slots[1]) ? pc + 1 : lines + i.jump;
          break;
        case Code::kIfLess:
          ++steps.count;
          pc = read(i.slots[0]) < read(i.slots[1]) ? pc + 1 : lines + i.jump;
          break;
        case Code::kIfAtMost:
          ++steps.count;
          pc = read(i.slots[0]) <= read(i.slots[1]) ? pc + 1 : lines + i.jump;
          break;

        // Jump: goes on with line P.jump. It is no instruction of the program, and no step.
        case Code::kJump:
          pc = lines + i.jump;
          break;

        // Call: runs procedure P.jump with K for its parameters, and then goes on with the next line. The callee's
        // registers begin P.table registers above the caller's.
        case Code::kCall: {
          ++steps.count;
          Word* const own = registers + i.table;
          const Slot* const slots = i.slots;
          for (std::size_t s = 0; s < i.count; ++s) own[s] = read(slots[s]);
          calls_.push_back({i.next(), registers});
          registers = own;
          pc = lines + program_.procedures[i.jump].entry;
          break;
        }

        // Return: goes on after the call that led here; there being none, the update is done. No step.
        case Code::kReturn:
          if (calls_.empty()) return;
          pc = calls_.back().pc;
          registers = calls_.back().registers;
          calls_.pop_back();
          break;

        // Find: registers[P.reg] <- the row of T with key K, and goes on with the next line; if there is none, changes
        // nothing and goes on with line P.jump.
        case Code::kFind: {
          steps.count += 2;
          const Row row = tables[i.table].find(read_words(i, 0));
          if (row != kNoRow) registers[i.reg] = row;
          pc = row != kNoRow ? i.next() : lines + i.jump;
          break;
        }

        // Insert: registers[P.reg] <- a new row of T with key K, its values 0, on level 0. Faults if the key is there.
        case Code::kInsert: {
          Table& table = tables[i.table];
          steps.count += 1 + change_steps(table);
          touch(table);
          const Row row = table.insert(read_words(i, 0), log_);
          if (row == kNoRow) fail_program("a row was to be inserted whose key is there already");
          registers[i.reg] = row;
          pc = i.next();
          break;
        }

        // Remove: takes the row in registers[P.reg] out of T. The table's last row has its number from then on.
        case Code::kRemove: {
          Table& table = tables[i.table];
          steps.count += 1 + change_steps(table);
          touch(table);
          table.remove(row_in(registers[i.reg], table), log_);
          ++pc;
          break;
        }

        // Add: its slots are three targets, a key of T and the changes of the first values. Where no row has the key: if
        // rows vanish (P.detail) and the first change is 0, nothing, and it goes on at the third target; else a new row
        // has the changes for its values, and it goes on at the first. Where one has: if rows vanish and the first sum is
        // 0, it goes on at the second, where a block follows that ends in Remove, or the row is removed here; else the
        // sums are stored, and it goes on with line P.jump. registers[P.reg] <- the row, in all cases but the first.
        // Faults if a sum that is to be stored leaves 64 bits.
        case Code::kAdd: {
          Table& table = tables[i.table];
          steps.count += 2;
          const Slot* const targets = i.slots;
          const Word* const key = read_words(i, 3);
          const std::size_t width = table.key_width();
          const Word* const changes = key + width;
          const std::size_t count = std::size_t{i.count} - 3 - width;
          const Table::Place place = table.locate(key);
          if (place.row == kNoRow) {
            if (i.detail != kStays && changes[0] == 0) {
              pc = lines + targets[2].number;
              break;
            }
            steps.count += change_steps(table) - 1;
            touch(table);
            registers[i.reg] = table.insert(place, key, {changes, count}, log_);
            pc = lines + targets[0].number;
            break;
          }
          registers[i.reg] = place.row;
          const Word before = table.words(place.row)[width];
          const Word first = sum(before, changes[0]);
          if (first == 0 && i.detail != kStays) {
            pc = lines + targets[1].number;
            if (i.detail == kGoesAfter) break;
            steps.count += change_steps(table) - 1;
            touch(table);
            table.remove(place.row, log_);
            break;
          }
          table.store(place.row, 0, before, first, log_);
          for (std::size_t c = 1; c < count; ++c) {
            if (changes[c] == 0) continue;
            const Word old = table.words(place.row)[width + c];
            table.store(place.row, c, old, sum(old, changes[c]), log_);
          }
          pc = lines + i.jump;
          break;
        }

        // WideAdd: as Add, of values that have as many words as the table says; the changes have as many. The first value,
        // or its sum, is 0 if all its words are. Faults if a sum that is to be stored leaves its words.
        case Code::kWideAdd: {
          Table& table = tables[i.table];
          steps.count += 2;
          const Slot* const targets = i.slots;
          const Word* const key = read_words(i, 3);
          const std::size_t width = table.key_width();
          const Word* const changes = key + width;
          const std::vector<std::size_t>& widths = table.value_widths();
          const Table::Place place = table.locate(key);
          if (place.row == kNoRow) {
            if (i.detail != kStays && is_zero(changes, widths[0])) {
              pc = lines + targets[2].number;
              break;
            }
            steps.count += change_steps(table) - 1;
            touch(table);
            registers[i.reg] = table.insert(place, key, {changes, std::size_t{i.count} - 3 - width}, log_);
            pc = lines + targets[0].number;
            break;
          }
          registers[i.reg] = place.row;
          const WideResult first = changed_value(table, place.row, 0, widths[0], changes);
          if (first.is_zero() && i.detail != kStays) {
            pc = lines + targets[1].number;
            if (i.detail == kGoesAfter) break;
            steps.count += change_steps(table) - 1;
            touch(table);
            table.remove(place.row, log_);
            break;
          }
          store_value(table, place.row, 0, widths[0], first);
          for (std::size_t value = 1, word = widths[0]; value < i.other; word += widths[value++]) {
            if (is_zero(changes + word, widths[value])) continue;
            const WideResult sum = changed_value(table, place.row, word, widths[value], changes + word);
            store_value(table, place.row, word, widths[value], sum);
          }
          pc = lines + i.jump;
          break;
        }

        // WideMath: registers[P.reg] and those after it, P.jump words <- a + b, a - b or a * b (P.detail), of which a is
        // the number in the first P.other words of K and b that in the others. Faults if that leaves the words.
        case Code::kWideMath: {
          ++steps.count;
          const Word* const k = read_words(i, 0);
          if (const std::optional<Word> word = short_result(i.detail, k, i.other, i.count)) {
            registers[i.reg] = *word;
            std::fill_n(registers + i.reg + 1, i.jump - 1, sign_of(*word));
            pc = i.next();
            break;
          }
          const Wide a(k, i.other), b(k + i.other, std::size_t{i.count} - i.other);
          const WideResult result = i.detail == 2 ? multiply(a, b) : add(a, b, i.detail == 1);
          if (!write(result, i.jump, registers + i.reg)) fail_wide_overflow();
          pc = i.next();
          break;
        }

        // WideIf: as IfEqual and so on (P.detail), of the number in the first P.other words of K and that in the others.
        case Code::kWideIf: {
          ++steps.count;
          const Word* const k = read_words(i, 0);
          const std::size_t first = i.other, second = std::size_t{i.count} - first;
          const bool is_one_word = is_short(k, first) && is_short(k + first, second);
          const int order = is_one_word ? (k[0] > k[first]) - (k[0] < k[first]) : compare(Wide(k, first), Wide(k + first, second));
          pc = test_words(i.detail, order, 0) ? i.next() : lines + i.jump;
          break;
        }

        // Store: value P.other of the row of T in registers[P.reg] <- K[0].
        case Code::kStore: {
          ++steps.count;
          Table& table = tables[i.table];
          const Word word = read(i.slots[0]);
          table.store(row_in(registers[i.reg], table), i.other, word, log_);
          ++pc;
          break;
        }

        // SetLevel: moves the row of T in registers[P.reg] to level P.detail, in all its groups.
        case Code::kSetLevel: {
          ++steps.count;
          Table& table = tables[i.table];
          table.set_level(row_in(registers[i.reg], table), i.detail, log_);
          ++pc;
          break;
        }

        // GetLevel: registers[P.reg] <- the level of the row of T in registers[P.other].
        case Code::kGetLevel: {
          ++steps.count;
          const Table& table = tables[i.table];
          registers[i.reg] = table.level(row_in(registers[i.other], table));
          ++pc;
          break;
        }

        // Count: registers[P.reg] <- how many rows the group K of index P.other of T has on the levels P.detail.
        case Code::kCount: {
          steps.count += 2;
          const Word* const key = read_words(i, 0);
          registers[i.reg] = static_cast<Word>(tables[i.table].group(i.other, key, Levels::unpack(i.detail)).size());
          pc = i.next();
          break;
        }

        // CountOwn: the same of the group that the row of T in the register of the first slot is in.
        case Code::kCountOwn: {
          steps.count += 2;
          const Table& table = tables[i.table];
          const Row row = row_in(registers[i.slots[0].reg], table);
          registers[i.reg] = static_cast<Word>(table.group_size_of(i.other, row, Levels::unpack(i.detail)));
          pc = i.next();
          break;
        }

        // CountAll: registers[P.reg] <- how many rows T has.
        case Code::kCountAll:
          steps.count += 2;
          registers[i.reg] = static_cast<Word>(tables[i.table].size());
          ++pc;
          break;

        // Each: for every row that the group K of index P.other of T has now on the levels P.detail, in their order:
        // registers[P.reg] <- the row, and the lines that follow, up to NextEach. The rows are copied first, as the body
        // may move them within their groups. With none, or in the end, it goes on with line P.jump.
        case Code::kEach: {
          const std::span<const Row> rows = group(i, registers, read_words);
          steps.count += 2;
          if (rows.empty()) {
            pc = lines + i.jump;
            break;
          }
          const std::size_t begin = copies_.size();
          copies_.make_room(rows.size());
          std::copy(rows.begin(), rows.end(), copies_.end());
          copies_.resize(begin + rows.size());
          loops_.push_back({nullptr, begin, begin, begin + rows.size()});
          ++steps.count;
          registers[i.reg] = copies_[begin];
          pc = i.next();
          break;
        }
        case Code::kNextEach: {
          Loops& loop = loops_.back();
          if (++loop.at == loop.end) {
            copies_.resize(loop.begin);
            loops_.pop_back();
            ++pc;
            break;
          }
          ++steps.count;
          registers[i.reg] = copies_[loop.at];
          pc = lines + i.jump;
          break;
        }

        // Scan: as Each, but the rows are read where they stand: the body does not change T.
        case Code::kScan: {
          const std::span<const Row> rows = group(i, registers, read_words);
          steps.count += 2;
          if (rows.empty()) {
            pc = lines + i.jump;
            break;
          }
          loops_.push_back({rows.data(), 0, 0, rows.size()});
          ++steps.count;
          registers[i.reg] = rows[0];
          pc = i.next();
          if (looks_ahead(*pc)) {
            for (const Row row : rows.subspan(1, std::min(rows.size(), kAhead) - 1)) fetch_found(*pc, tables[i.table], row, registers);
          }
          break;
        }
        case Code::kNextScan: {
          Loops& loop = loops_.back();
          if (++loop.at == loop.end) {
            loops_.pop_back();
            ++pc;
            break;
          }
          ++steps.count;
          registers[i.reg] = loop.rows[loop.at];
          pc = lines + i.jump;
          if (looks_ahead(*pc)) {
            if (loop.at + 2 * kAhead <= loop.end) tables[i.table].prefetch(loop.rows[loop.at + 2 * kAhead - 1]);
            if (loop.at + kAhead <= loop.end) fetch_found(*pc, tables[i.table], loop.rows[loop.at + kAhead - 1], registers);
          }
          break;
        }

        // ScanAll: as Each, over the rows 0, 1, … that T has now. Nothing is copied, as levels do not move them.
        case Code::kScanAll: {
          const std::size_t rows = tables[i.table].size();
          steps.count += 2;
          if (rows == 0) {
            pc = lines + i.jump;
            break;
          }
          loops_.push_back({nullptr, 0, 0, rows});
          ++steps.count;
          registers[i.reg] = 0;
          ++pc;
          break;
        }
        case Code::kNextAll: {
          Loops& loop = loops_.back();
          if (++loop.at == loop.end) {
            loops_.pop_back();
            ++pc;
            break;
          }
          ++steps.count;
          registers[i.reg] = static_cast<Word>(loop.at);
          pc = lines + i.jump;
          break;
        }

        // Emit: appends to channel P.jump a row of the outputs that the slots make: an operand each, or a slot that
        // says how many factors follow. Faults if a product leaves 64 bits. Nothing, in a silent block or while updates
        // are taken back.
        case Code::kEmit:
          ++steps.count;
          if (silent == 0) emit(i, program_.channels[i.jump], read);
          pc = i.next();
          break;

        // Silence, Speak: around a silent block. Whatever runs between them, callees too, emits nothing; blocks may be
        // within blocks. Every Silence is followed by its Speak, as no jump leads out of a block.
        case Code::kSilence:
          ++steps.count;
          ++silent;
          ++pc;
          break;
        case Code::kSpeak:
          --silent;
          ++pc;
          break;

        // Nest: nest P.jump, scans within scans around one emit, all at once (nest.h).
        case Code::kNest: {
          ++steps.count;
          ++pc;
          if (silent != 0) break;
          const Instruction& nest = *program_.nests[i.jump];
          const Frame frame{registers, update_};
          walk_.begin(nest.nest, frame);
          walk_.run(&program_.channels[nest.number], std::numeric_limits<std::size_t>::max());
          steps.count += walk_.take_steps() - 1;
          break;
        }

        // Select: registers[P.reg] <- the row at a rank, the last of K, of the group of ordered index P.other of T by
        // the words before it, and goes on with the next line; if there is none, goes on with line P.jump.
        case Code::kSelect: {
          const Table& table = tables[i.table];
          steps.count += 1 + ordered_steps(table);
          const Word* const key = read_words(i, 0);
          const std::size_t width = std::size_t{i.count} - 1;
          const Row row = table.orders()[i.other].select(key, width, key[width], table.view());
          if (row != kNoRow) registers[i.reg] = row;
          pc = row != kNoRow ? i.next() : lines + i.jump;
          break;
        }

        // Rank: registers[P.reg] <- the first rank of the row of T in the register of the first slot, in its group by
        // the first P.jump columns of ordered index P.other. Faults if that leaves 64 bits.
        case Code::kRank: {
          const Table& table = tables[i.table];
          steps.count += 1 + ordered_steps(table);
          const Row row = row_in(registers[i.slots[0].reg], table);
          registers[i.reg] = to_word(table.orders()[i.other].rank(row, i.jump, table.view()));
          ++pc;
          break;
        }

        // Before: registers[P.reg] <- how many ranks come before the words K in the group of ordered index P.other of T
        // by the first P.jump of them. Faults likewise.
        case Code::kBefore: {
          const Table& table = tables[i.table];
          steps.count += 1 + ordered_steps(table);
          const Word* const key = read_words(i, 0);
          registers[i.reg] = to_word(table.orders()[i.other].before(key, i.count, i.jump, table.view()));
          pc = i.next();
          break;
        }

        // Size: registers[P.reg] <- how many ranks the group of ordered index P.other of T by K has. Faults likewise.
        case Code::kSize: {
          const Table& table = tables[i.table];
          steps.count += 1 + ordered_steps(table);
          registers[i.reg] = to_word(table.orders()[i.other].size(read_words(i, 0), i.count, table.view()));
          pc = i.next();
          break;
        }
      }
    }
  }

  // When an update is done, or undone: gives back the memory that it has freed, and tells whose rows have come or gone.
  template <class Tell>
  void tidy(Tell&& tell) noexcept {
    for (Table* const table : touched_) {
      table->tidy();
      tell(*table);
    }
    touched_.clear();
  }
  void give_back(bool all) noexcept { all ? copies_.release() : copies_.give_back(); }

 private:
  // Most operands are registers, some are literals; the others are read apart, so that this stays short.
  [[gnu::always_inline]] Word read_slot(const Slot& slot, const Word* registers) const {
    if (slot.source == Slot::Source::kRegister) return registers[slot.reg];
    if (slot.source == Slot::Source::kLiteral) return slot.literal;
    return read_other(slot, registers);
  }

  Word read_other(const Slot& slot, const Word* registers) const {
    if (slot.source == Slot::Source::kField) {
      const Table& table = program_.tables[slot.field.table];
      return table.words(row_in(registers[slot.reg], table))[slot.field.column];
    }
    return slot.source == Slot::Source::kUpdate ? update_ : program_.wide[slot.number];
  }

  template <class ReadWords>
  std::span<const Row> group(const Line& i, const Word* registers, const ReadWords& read_words) const {
    const Table& table = program_.tables[i.table];
    const Levels levels = Levels::unpack(i.detail);
    if ((i.detail & kOwnGroup) == 0) return table.group(i.other, read_words(i, 0), levels);
    return table.group_of(i.other, row_in(registers[i.slots[0].reg], table), levels);
  }

  // Scans whose body begins with a Find by words of the row fetch what it will read some rows ahead, and the rows themselves
  // twice as far: it only warms the processor's cache.
  static constexpr std::size_t kAhead = 4;
  static bool looks_ahead(const Line& body) noexcept { return body.code == Code::kFind && body.detail == kFoundAhead; }
  void fetch_found(const Line& find, const Table& scanned, Row row, const Word* registers) const {
    Hasher hasher;
    for (std::size_t s = 0; s < find.count; ++s) {
      const Slot& slot = find.slots[s];
      hasher.add(slot.source == Slot::Source::kField ? scanned.words(row)[slot.field.column] : read_slot(slot, registers));
    }
    program_.tables[find.table].prefetch_slot(hasher.tag());
  }

  template <class Read>
  static void emit(const Line& i, Channel& channel, const Read& read) {
    channel.make_room(1);
    const Slot* slot = i.slots;
    for (std::size_t c = 0; c < channel.width(); ++c) {
      if (slot->source == Slot::Source::kWideFactors) {
        c += emit_wide(slot, channel, c, read) - 1;
        continue;
      }
      if (slot->source != Slot::Source::kFactors) {
        *channel.end(c) = read(*slot++);
        continue;
      }
      const Slot* const end = slot + 1 + slot->number;
      Word product = read(*++slot);
      while (++slot != end) product = multiply(product, read(*slot));
      *channel.end(c) = product;
    }
    channel.add_rows(1);
  }

  // A product of several words, from column `first` on; gives how many, and goes on to the next output's slot.
  template <class Read>
  static std::size_t emit_wide(const Slot*& slot, Channel& channel, std::size_t first, const Read& read) {
    const std::size_t width = slot->reg;
    std::uint32_t factors = slot->number;
    ++slot;
    Wide product(1);
    for (; factors != 0; --factors) {
      Word words[kMostWords];
      const std::size_t size = (slot++)->number;
      for (std::size_t i = 0; i < size; ++i) words[i] = read(*slot++);
      product = multiply_within(product, Wide(words, size), width);
    }
    for (std::size_t i = 0; i < width; ++i) *channel.end(first + i) = product.word(i);
    return width;
  }

  // a + b, a - b or a * b of numbers that need one word each, if the result does, too.
  static std::optional<Word> short_result(std::uint8_t operation, const Word* k, std::size_t first, std::size_t count) noexcept {
    if (!is_short(k, first) || !is_short(k + first, count - first)) return std::nullopt;
    const Word a = k[0], b = k[first];
    Word result = 0;
    const bool overflows = operation == 2   ? __builtin_mul_overflow(a, b, &result)
                           : operation == 1 ? __builtin_sub_overflow(a, b, &result)
                                            : __builtin_add_overflow(a, b, &result);
    return overflows ? std::nullopt : std::optional<Word>(result);
  }

  // A value of a row, whose words begin at `word` of all values', with a change.
  static WideResult changed_value(const Table& table, Row row, std::size_t word, std::size_t size, const Word* change) {
    Word old[kMostWords];
    for (std::size_t i = 0; i < size; ++i) old[i] = table.words(row)[table.key_width() + word + i];
    return add(Wide(old, size), Wide(change, size), false);
  }

  // Stores the words of a value that are others now.
  void store_value(Table& table, Row row, std::size_t word, std::size_t size, const WideResult& value) {
    if (value.size > size) fail_wide_overflow();
    for (std::size_t i = 0; i < size; ++i) {
      const Word old = table.words(row)[table.key_width() + word + i];
      if (old != value.word(i)) table.store(row, word + i, old, value.word(i), log_);
    }
  }

  // To be called before rows of a table come or go: it is tidied when the update is done.
  void touch(Table& table) noexcept {
    if (!table.is_touched()) touched_.push_back(&table);
  }

  static Word divide(Word a, Word b) {
    if (b == 0) fail_program("a word was to be divided by 0");
    if (b == -1 && a == kLowestWord) fail_overflow();
    return a / b - (a % b != 0 && (a < 0) != (b < 0) ? 1 : 0);
  }

  static Word remainder(Word a, Word b) {
    if (b == 0) fail_program("a word was to be divided by 0");
    if (b == -1) return 0;
    const Word rest = a % b;
    return rest != 0 && (rest < 0) != (b < 0) ? rest + b : rest;
  }

  // An operation on doubles, by its number in the encoding.
  static Word calculate(std::uint8_t operation, Word left, Word right) {
    enum : std::uint8_t { kAdd = 6, kSubtract, kMultiply, kDivide, kScale };
    const double a = operation == kScale ? static_cast<double>(left) : std::bit_cast<double>(left);
    const double b = std::bit_cast<double>(right);
    double found = 0;
    switch (operation) {
      case kAdd: found = a + b; break;
      case kSubtract: found = a - b; break;
      case kDivide:
        if (b == 0) fail_program("a float was to be divided by 0");
        found = a / b;
        break;
      default: found = a * b;
    }
    if (!std::isfinite(found)) fail_overflow();
    return std::bit_cast<Word>(found + 0.0);
  }

  // Bit by bit, from the highest that a root can have.
  static Word root(Word a, Word b) {
    if (a < 0 || b < 1) fail_program("a word has no such root");
    Word found = 0;
    for (int bit = static_cast<int>(62 / b); bit >= 0; --bit) {
      const Word more = found | Word{1} << bit;
      if (power_is_at_most(more, b, a)) found = more;
    }
    return found;
  }

  static bool power_is_at_most(Word base, Word exponent, Word most) noexcept {
    if (base <= 1) return base <= most;
    Word power = 1;
    for (Word i = 0; i < exponent; ++i) {
      if (__builtin_mul_overflow(power, base, &power) || power > most) return false;
    }
    return true;
  }

  static Word sum(Word a, Word b) {
    Word result = 0;
    if (__builtin_add_overflow(a, b, &result)) fail_overflow();
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

  // Adds to the machine's steps when it goes, whether the update succeeds or not.
  struct StepCounter {
    std::uint64_t& total;
    std::uint64_t count = 0;

    ~StepCounter() { total += count; }
  };

  struct Called {
    const Line* pc;
    Word* registers;
  };

  // A loop on its way: in rows that stand somewhere, in those copied, or in all rows of a table.
  struct Loops {
    const Row* rows;
    std::size_t begin;
    std::size_t at;
    std::size_t end;
  };

  Program& program_;
  UndoLog& log_;
  std::vector<Word> stack_;      // The registers of the procedures that are running.
  std::vector<Word> words_;      // The words of the instruction that is running.
  std::vector<Called> calls_;    // These two are as deep as the program is nested, and never grow.
  std::vector<Loops> loops_;
  Array<Row> copies_;            // A stack of the rows that `Each` loops walk over.
  std::vector<Table*> touched_;  // Tables whose rows have come or gone in this update.
  Walk walk_;
  Word update_ = 0;
  std::uint64_t steps_ = 0;
};

}  // namespace everview

// From an encoded program (everview/kernel/encode.py) to one that runs, refusing whatever could not be run safely.
#pragma once

#include <string>

#include "assembler.h"

namespace everview {

inline constexpr int kEncoding = 11;  // Which encoding is read; everview/kernel/encode.py says which is written.

// Reads a flat run of words. Everything that the machine relies on is checked here and throws std::invalid_argument:
// numbers of tables, columns, indexes, registers and procedures, widths, no recursion, depth, and that no scan's body
// changes what the scan walks over. What registers hold is not: row numbers are checked when they are used.
class Decoder {
 public:
  Decoder(const Word* words, std::size_t size, const ValueTable* values = nullptr)
      : at_(words), end_(words + size), values_(values) {}

  Program decode() {
    Hasher fingerprint;
    for (const Word* word = at_; word != end_; ++word) fingerprint.add(*word);
    program_.fingerprint = fingerprint.value();
    read_tables();
    const std::size_t channels = count(kMaxItems, "channels");
    for (std::size_t i = 0; i < channels; ++i) program_.channels.emplace_back(count(kMaxWidth, "words in a channel"));
    program_.procedures.resize(count(kMaxItems, "procedures"));
    changes_.resize(program_.procedures.size());
    reads_.resize(program_.procedures.size());
    calls_.resize(program_.procedures.size());
    for (current_ = 0; current_ < program_.procedures.size(); ++current_) read_procedure();
    check_calls();
    const std::size_t cursors = count(kMaxItems, "cursors");
    for (std::size_t i = 0; i < cursors; ++i) read_cursor();
    if (at_ != end_) refuse("there is more after the end");
    check_scans();
    for (const std::size_t depth : depths_) program_.depth = std::max(program_.depth, depth);
    Assembler::assemble(program_);
    return std::move(program_);
  }

 private:
  static constexpr std::size_t kMaxWidth = 4096;
  static constexpr std::size_t kMaxItems = 1 << 20;
  static constexpr std::size_t kMaxRegisters = 1 << 16;  // As of tables: cells have 16 bits for their numbers.
  static constexpr std::size_t kMaxTables = 1 << 16;
  static constexpr std::size_t kMaxDepth = 2000;  // Of nested blocks, calls included.
  static constexpr std::size_t kMaxCursorDepth = 64;  // Of steps within steps.

  using Tables = std::vector<std::uint32_t>;
  struct ScanBody {
    std::size_t table;
    Tables changes;
    std::vector<std::size_t> calls;
  };

  [[noreturn]] static void refuse(const std::string& what) { throw std::invalid_argument("bad program: " + what); }

  Word word() {
    if (at_ == end_) refuse("it ends early");
    return *at_++;
  }

  // A number of things, each of which takes at least a word of what is left (so that no lie about it costs memory).
  std::size_t count(std::size_t most, const char* what) {
    const Word value = word();
    if (value < 0 || static_cast<std::size_t>(value) > most) {
      refuse(std::to_string(value) + " " + what + " are not possible");
    }
    return static_cast<std::size_t>(value);
  }
  std::size_t items(std::size_t most, const char* what) {
    const std::size_t value = count(most, what);
    if (value > static_cast<std::size_t>(end_ - at_)) refuse("it ends early");
    return value;
  }

  std::uint32_t number(std::size_t below, const char* what) {
    const Word value = word();
    if (value < 0 || static_cast<std::size_t>(value) >= below) {
      refuse("there is no " + std::string(what) + " " + std::to_string(value));
    }
    return static_cast<std::uint32_t>(value);
  }

  void read_tables() {
    const std::size_t tables = items(kMaxTables, "tables");
    program_.tables.reserve(tables);  // Operands point to tables, so they must not move.
    for (std::size_t i = 0; i < tables; ++i) {
      const std::size_t key_width = count(kMaxWidth, "key words");
      std::vector<std::size_t> widths(items(kMaxWidth, "values"));
      std::size_t value_width = 0;
      for (std::size_t& width : widths) value_width += width = words("a value");
      std::vector<std::vector<std::uint32_t>> indexes(items(kMaxWidth, "indexes"));
      for (std::vector<std::uint32_t>& columns : indexes) columns = read_columns(key_width);
      std::vector<OrderedIndex::Shape> orders(items(kMaxWidth, "ordered indexes"));
      for (OrderedIndex::Shape& order : orders) {
        order.columns = read_columns(key_width);
        const auto measure = count(value_width, "as a measure");  // 0 is none.
        if (measure != 0) order.measure = static_cast<std::uint32_t>(key_width + measure - 1);
        order.by_value = read_columns(key_width);
        order.descending = read_columns(key_width);
        order.values = values_;
        if (!order.by_value.empty() && values_ == nullptr) refuse("an index orders by values, and there are none");
      }
      const auto levels = 1 + number(kMostLevels, "number of levels 1 +");
      program_.tables.emplace_back(static_cast<std::uint32_t>(i), key_width, widths, indexes, orders, levels);
    }
  }

  // How many words something has.
  std::size_t words(const char* what) {
    const std::size_t width = count(kMostWords, "words in a number");
    if (width == 0) refuse(std::string(what) + " has no words");
    return width;
  }

  std::vector<std::uint32_t> read_columns(std::size_t key_width) {
    std::vector<std::uint32_t> columns;
    const std::size_t width = items(key_width, "columns of an index");
    std::vector<bool> seen(key_width);
    for (std::size_t c = 0; c < width; ++c) {
      columns.push_back(number(key_width, "key column"));
      if (seen[columns.back()]) refuse("an index has a column twice");
      seen[columns.back()] = true;
    }
    return columns;
  }

  void read_procedure() {
    Procedure& procedure = program_.procedures[current_];
    procedure.parameters = static_cast<std::uint32_t>(count(kMaxRegisters, "parameters"));
    procedure.registers = static_cast<std::uint32_t>(count(kMaxRegisters, "registers"));
    if (procedure.parameters > procedure.registers) refuse("a procedure has fewer registers than parameters");
    registers_ = procedure.registers;
    tables_read_ = &reads_[current_];
    procedure.body = read_block(1);
  }

  void read_cursor() {
    CursorPlan& cursor = program_.cursors.emplace_back();
    cursor.parameters = static_cast<std::uint32_t>(count(kMaxRegisters, "parameters"));
    cursor.registers = static_cast<std::uint32_t>(count(kMaxRegisters, "registers"));
    if (cursor.parameters > cursor.registers) refuse("a cursor has fewer registers than parameters");
    registers_ = cursor.registers;
    answers_ = &cursor.answers;
    tables_read_ = &cursor.reads;
    cursor.steps = read_steps(1);
    cursor.outputs = read_outputs();
    make_set(cursor.reads);
    find_nests(cursor);
  }

  // A product of steps.
  std::vector<CursorNode> read_steps(std::size_t depth) {
    if (depth > kMaxCursorDepth) refuse("a cursor's steps are nested too deeply");
    std::vector<CursorNode> steps(items(kMaxWidth, "steps"));
    for (CursorNode& step : steps) step = read_step(depth);
    return steps;
  }

  CursorNode read_step(std::size_t depth) {
    using Kind = CursorNode::Kind;
    enum : std::uint32_t { kLoop, kInOrder, kGuard, kAsk, kConcat, kUnion, kBuckets };
    CursorNode node;
    const std::uint32_t kind = number(kBuckets + 1, "kind of step");
    switch (kind) {
      case kLoop:
        node.loop = read_loop();
        break;
      case kInOrder:
        node.loop = read_in_order();
        break;
      case kGuard:
        node.kind = Kind::kGuard;
        node.test = static_cast<std::uint8_t>(number(4, "test"));
        node.operands = {read_operand(), read_operand()};
        break;
      case kAsk:
        node.kind = Kind::kAsk;
        node.question = read_question();
        node.words = read_registers();
        if (node.words.size() != program_.channels[node.question.channel].width()) refuse("a function gives other words");
        break;
      case kConcat:
      case kUnion:
        node.kind = kind == kConcat ? Kind::kConcat : Kind::kUnion;
        node.words = read_registers();
        node.parts.resize(items(kMaxWidth, "parts"));
        for (CursorPart& part : node.parts) part = read_part(node, depth);
        break;
      case kBuckets: {
        node.kind = Kind::kBuckets;
        node.words = read_registers();
        const CursorNode each = read_step(depth);
        if (each.kind != Kind::kLoop) refuse("buckets are made by a loop");
        node.loop = each.loop;
        node.parts.push_back(read_part(node, depth));
        break;
      }
    }
    return node;
  }

  CursorPart read_part(const CursorNode& node, std::size_t depth) {
    CursorPart part;
    part.steps = read_steps(depth + 1);
    part.outputs = read_outputs();
    if (part.outputs.size() != node.words.size()) refuse("a part gives more or fewer words than its node has");
    for (const Output& output : part.outputs) {
      if (output.is_wide()) refuse("a part gives a number of several words");
    }
    if (node.kind != CursorNode::Kind::kConcat) {
      part.test = read_question();
      if (program_.channels[part.test.channel].width() == 0) refuse("a test gives nothing");
    }
    return part;
  }

  Question read_question() {
    Question question;
    question.procedure = number(program_.procedures.size(), "procedure");
    question.channel = number(program_.channels.size(), "channel");
    question.arguments = read_operands(kMaxRegisters);
    const Procedure& asked = program_.procedures[question.procedure];
    if (!asked.reads_only) refuse("a cursor asks what changes tables");
    if (asked.parameters != question.arguments.size()) refuse("a question has the wrong number of arguments");
    answers_->push_back(question.channel);
    append(*tables_read_, reads_[question.procedure]);
    return question;
  }

  std::vector<std::uint32_t> read_registers() {
    std::vector<std::uint32_t> registers(items(kMaxRegisters, "registers"));
    for (std::uint32_t& one : registers) one = reg();
    return registers;
  }

  // Loops around outputs, and such nests one after the other, each behind guards, run at one go.
  void find_nests(CursorPlan& cursor) {
    std::vector<GuardedNest> nests;
    if (cursor.steps.size() == 1 && cursor.steps[0].kind == CursorNode::Kind::kConcat) {
      const CursorNode& concat = cursor.steps[0];
      for (const CursorPart& part : concat.parts) {
        std::vector<Output> outputs;
        for (const Output& output : cursor.outputs) {
          const Operand& word = output.factors[0];
          const auto at = std::find(concat.words.begin(), concat.words.end(), word.reg);
          if (output.is_wide() || output.factors.size() != 1) return;
          if (word.source != Operand::Source::kRegister || at == concat.words.end()) return;
          outputs.push_back(part.outputs[static_cast<std::size_t>(at - concat.words.begin())]);
          outputs.back().column = output.column;
        }
        if (!add_nest(part.steps, std::move(outputs), nests)) return;
      }
    } else if (!add_nest(cursor.steps, cursor.outputs, nests)) {
      return;
    }
    cursor.nests = std::move(nests);
    cursor.steps.clear();
  }

  // False if the steps are others than guards followed by loops.
  static bool add_nest(const std::vector<CursorNode>& steps, std::vector<Output> outputs, std::vector<GuardedNest>& nests) {
    GuardedNest found;
    found.nest.outputs = std::move(outputs);
    for (const CursorNode& step : steps) {
      if (step.kind == CursorNode::Kind::kGuard && found.nest.loops.empty()) {
        found.guards.push_back(step);
      } else if (step.kind == CursorNode::Kind::kLoop) {
        found.nest.loops.push_back(step.loop);
      } else {
        return false;
      }
    }
    if (!finish(found.nest)) refuse("a cursor's outputs take one table's rows for another's");
    nests.push_back(std::move(found));
    return true;
  }

  std::uint32_t reg() { return number(registers_, "register"); }

  Table* table() {
    tables_read_->push_back(number(program_.tables.size(), "table"));
    return &program_.tables[tables_read_->back()];
  }
  std::size_t number_of(const Table* table) const { return static_cast<std::size_t>(table - program_.tables.data()); }

  Operand read_operand() {
    enum : std::uint32_t { kRegister, kLiteral, kKey, kValue, kUpdate };
    Operand operand;
    const std::uint32_t kind = number(kUpdate + 1, "kind of operand");
    if (kind == kRegister) {
      operand.source = Operand::Source::kRegister;
      operand.reg = reg();
    } else if (kind == kLiteral) {
      operand.source = Operand::Source::kLiteral;
      operand.literal = word();
    } else if (kind == kUpdate) {
      operand.source = Operand::Source::kUpdate;
    } else {
      operand.source = Operand::Source::kField;
      operand.reg = reg();
      const Table& rows = *table();
      operand.table = &rows;
      operand.column = kind == kKey ? number(rows.key_width(), "key column")
                                    : static_cast<std::uint32_t>(rows.key_width()) + number(rows.value_width(), "value column");
    }
    return operand;
  }

  std::vector<Operand> read_operands(std::size_t most = kMaxWidth) {
    std::vector<Operand> operands(items(most, "operands"));
    for (Operand& operand : operands) operand = read_operand();
    return operands;
  }

  std::vector<Operand> read_key(std::size_t width) {
    std::vector<Operand> operands = read_operands();
    if (operands.size() != width) {
      refuse("a key has " + std::to_string(operands.size()) + " words instead of " + std::to_string(width));
    }
    return operands;
  }

  std::vector<Output> read_outputs() {
    std::vector<Output> outputs(items(kMaxWidth, "outputs"));
    std::size_t column = 0;
    for (Output& output : outputs) {
      output.column = column;
      read_output(output);
      column += output.words;
    }
    return outputs;
  }

  void read_output(Output& output) {
    const std::size_t width = count(kMostWords, "words in an output");
    if (width == 0) {
      output.factors = read_operands();
    } else {
      output.words = width;
      output.widths.resize(items(kMaxWidth, "factors"));
      for (std::size_t& factor : output.widths) {
        const std::vector<Operand> operands = read_number();
        factor = operands.size();
        output.factors.insert(output.factors.end(), operands.begin(), operands.end());
      }
    }
    if (output.factors.empty()) {
      output.factors.emplace_back();
      output.factors[0].literal = 1;
      if (width != 0) output.widths = {1};
    }
  }

  // The words of one number: all literals, or words side by side of one register or row.
  std::vector<Operand> read_number() {
    std::vector<Operand> operands = read_operands(kMostWords);
    if (operands.empty()) refuse("a number has no words");
    const Operand& first = operands[0];
    for (std::size_t i = 1; i < operands.size(); ++i) {
      const Operand& next = operands[i];
      const std::size_t registers = first.source == Operand::Source::kRegister ? i : 0;
      const std::size_t columns = first.source == Operand::Source::kField ? i : 0;
      if (next.source != first.source || next.table != first.table || next.reg != first.reg + registers ||
          next.column != first.column + columns) {
        refuse("a number is not whole");
      }
    }
    return operands;
  }

  Loop read_loop() {
    Loop loop;
    loop.reg = reg();
    loop.table = table();
    loop.index = number(loop.table->index_count(), "index");
    loop.key = read_key(loop.table->columns(loop.index).size());
    loop.levels = read_levels(*loop.table);
    loop.own_group = is_own_group(*loop.table, loop.index, loop.key);
    loop.whole = is_whole(*loop.table, loop.index, loop.levels);
    return loop;
  }

  std::uint8_t read_level(const Table& table) {
    return static_cast<std::uint8_t>(number(table.level_count(), "level"));
  }
  Levels read_levels(const Table& table) {
    const Levels levels{read_level(table), read_level(table)};
    if (levels.lowest > levels.highest) refuse("a range of levels ends before it begins");
    return levels;
  }

  // Whether all rows of a table are read; otherwise it takes a stored index to know which.
  bool is_whole(const Table& read, std::uint32_t index, Levels levels) {
    if (read.is_whole(index, levels)) return true;
    if (read.columns(index).empty()) program_.tables[number_of(&read)].keep_whole(index);
    return false;
  }

  Loop read_in_order() {
    Loop loop;
    loop.ordered = true;
    loop.reg = reg();
    loop.table = table();
    loop.index = number(loop.table->orders().size(), "ordered index");
    loop.key = read_operands(loop.table->orders()[loop.index].shape().columns.size());
    loop.start = read_operand();
    loop.descending = number(2, "direction") == 1;
    return loop;
  }

  // The table, the ordered index, and a key for some of its columns.
  void read_range(Instruction& i) {
    i.table = table();
    i.number = number(i.table->orders().size(), "ordered index");
    i.operands = read_operands(i.table->orders()[i.number].shape().columns.size());
  }

  Block read_block(std::size_t depth) {
    if (depth > kMaxDepth) refuse("its blocks are nested too deeply");
    depths_.resize(program_.procedures.size());
    depths_[current_] = std::max(depths_[current_], depth);
    Block block(items(kMaxItems, "instructions"));
    for (Instruction& instruction : block) instruction = read_instruction(depth);
    return block;
  }

  void changes(const Table* table) {
    const auto number = static_cast<std::uint32_t>(number_of(table));
    changes_[current_].push_back(number);
    for (ScanBody* body : open_scans_) body->changes.push_back(number);
  }

  Instruction read_instruction(std::size_t depth) {
    using Op = Instruction::Op;
    Instruction i;
    i.op = static_cast<Op>(number(static_cast<std::size_t>(Op::kNest), "instruction"));
    switch (i.op) {
      case Op::kCompute:
        i.reg = reg();
        i.detail = static_cast<std::uint8_t>(number(11, "operation"));
        i.operands = {read_operand(), read_operand()};
        break;
      case Op::kFind:
        i.reg = reg();
        i.table = table();
        i.operands = read_key(i.table->key_width());
        i.first = read_block(depth + 1);
        i.second = read_block(depth + 1);
        break;
      case Op::kInsert:
        i.reg = reg();
        i.table = table();
        i.operands = read_key(i.table->key_width());
        changes(i.table);
        break;
      case Op::kRemove:
        i.reg = reg();
        i.table = table();
        changes(i.table);
        break;
      case Op::kStore:
        i.reg = reg();
        i.table = table();
        i.number = number(i.table->value_width(), "value column");
        i.operands = {read_operand()};
        changes(i.table);
        break;
      case Op::kSetLevel:
        i.reg = reg();
        i.table = table();
        i.detail = read_level(*i.table);
        changes(i.table);
        break;
      case Op::kGetLevel:
        i.reg = reg();
        i.row = reg();
        i.table = table();
        break;
      case Op::kCount: {
        i.reg = reg();
        i.table = table();
        i.number = number(i.table->index_count(), "index");
        i.operands = read_key(i.table->columns(i.number).size());
        i.own_group = is_own_group(*i.table, i.number, i.operands);
        const Levels levels = read_levels(*i.table);
        i.detail = levels.packed();
        i.whole = is_whole(*i.table, i.number, levels);
        break;
      }
      case Op::kIf:
        i.detail = static_cast<std::uint8_t>(number(4, "test"));
        i.operands = {read_operand(), read_operand()};
        i.first = read_block(depth + 1);
        i.second = read_block(depth + 1);
        break;
      case Op::kEach:
      case Op::kScan:
        read_loop_instruction(i, depth);
        break;
      case Op::kEmit:
        i.number = number(program_.channels.size(), "channel");
        program_.procedures[current_].emits.push_back(i.number);
        i.nest.outputs = read_outputs();
        if (columns_of(i.nest.outputs) != program_.channels[i.number].width()) refuse("a channel's width is another");
        break;
      case Op::kCall:
        i.number = number(program_.procedures.size(), "procedure");
        i.operands = read_operands(kMaxRegisters);
        calls_[current_].push_back({i.number, i.operands.size(), depth});
        for (ScanBody* body : open_scans_) body->calls.push_back(i.number);
        break;
      case Op::kSelect:
        i.reg = reg();
        read_range(i);
        i.operands.push_back(read_operand());  // The rank, after the key.
        i.first = read_block(depth + 1);
        i.second = read_block(depth + 1);
        break;
      case Op::kRank: {
        i.reg = reg();
        i.row = reg();
        i.table = table();
        i.number = number(i.table->orders().size(), "ordered index");
        i.width = number(i.table->orders()[i.number].shape().columns.size() + 1, "group by so many columns:");
        break;
      }
      case Op::kSize:
        i.reg = reg();
        read_range(i);
        break;
      case Op::kBefore:
        i.reg = reg();
        read_range(i);
        i.width = number(i.operands.size() + 1, "group by so many columns:");
        break;
      case Op::kAdd: {
        i.reg = reg();
        i.table = table();
        i.operands = read_key(i.table->key_width());
        const std::vector<Operand> added = read_operands(i.table->value_width());
        if (added.empty()) refuse("nothing is added");
        i.number = values_of(*i.table, added.size());
        i.operands.insert(i.operands.end(), added.begin(), added.end());
        i.first = read_block(depth + 1);
        i.vanishes = number(2, "kind of addition") == 1;
        if (i.vanishes) i.second = read_block(depth + 1);
        i.third = read_block(depth + 1);
        changes(i.table);
        break;
      }
      case Op::kSilent:
        i.first = read_block(depth + 1);
        break;
      case Op::kWideCompute: {
        i.reg = reg();
        i.width = static_cast<std::uint32_t>(words("a register"));
        if (i.reg + i.width > registers_) refuse("a register of several words is not whole");
        i.detail = static_cast<std::uint8_t>(number(3, "operation of several words"));
        read_numbers(i);
        break;
      }
      case Op::kWideIf:
        i.detail = static_cast<std::uint8_t>(number(4, "test"));
        read_numbers(i);
        i.first = read_block(depth + 1);
        i.second = read_block(depth + 1);
        break;
      case Op::kNest:
        break;
    }
    return i;
  }

  void read_numbers(Instruction& i) {
    i.operands = read_number();
    i.number = static_cast<std::uint32_t>(i.operands.size());
    const std::vector<Operand> second = read_number();
    i.operands.insert(i.operands.end(), second.begin(), second.end());
  }

  // How many of a table's first values have so many words together.
  static std::uint32_t values_of(const Table& table, std::size_t words) {
    std::uint32_t values = 0;
    std::size_t sum = 0;
    while (sum < words) sum += table.value_widths()[values++];
    if (sum != words) refuse("a part of a value is added");
    return values;
  }

  void read_loop_instruction(Instruction& i, std::size_t depth) {
    i.nest.loops = {read_loop()};
    if (i.op == Instruction::Op::kEach) {
      i.first = read_block(depth + 1);
      return;
    }
    scans_.push_back(std::make_unique<ScanBody>(ScanBody{number_of(i.nest.loops[0].table), {}, {}}));
    open_scans_.push_back(scans_.back().get());
    i.first = read_block(depth + 1);
    open_scans_.pop_back();
    if (i.first.size() != 1) return;
    // Scans around nothing but scans or an emit become one nest.
    Instruction& only = i.first[0];
    if (only.op != Instruction::Op::kEmit && only.op != Instruction::Op::kNest) return;
    Nest nest{{i.nest.loops[0]}, only.nest.outputs};
    for (const Loop& loop : only.nest.loops) nest.loops.push_back(loop);
    if (!finish(nest)) return;
    i.op = Instruction::Op::kNest;
    i.number = only.number;
    i.nest = std::move(nest);
    i.first.clear();
  }

  // Finds out which loops' groups depend on which outer loops. Registers used twice, or too many loops: on all.
  // False if an output takes the innermost loop's rows for those of another table.
  static bool finish(Nest& nest) {
    const std::size_t depth = nest.loops.size();
    for (Output& output : nest.outputs) {
      output.constant = output.of_values = depth != 0;
      const std::size_t factors = output.is_wide() ? output.widths.size() : output.factors.size();
      output.leading = 0;
      for (std::size_t at = 0; depth != 0 && output.leading < factors; ++output.leading) {
        if (output.factors[at].reads(nest.loops.back().reg)) break;
        at += output.is_wide() ? output.widths[output.leading] : 1;
      }
      for (const Operand& operand : output.factors) {
        for (const Loop& loop : nest.loops) {
          const bool reads = operand.reads(loop.reg);
          output.constant = output.constant && !reads;
          output.of_values = output.of_values && (!reads || operand.source == Operand::Source::kField);
        }
        const bool is_word = operand.source == Operand::Source::kRegister;
        if (depth == 0 || is_word || !operand.reads(nest.loops.back().reg)) continue;
        if (operand.table != nest.loops.back().table) return false;
      }
    }
    bool plain = depth <= 64;
    for (std::size_t a = 0; a < depth; ++a) {
      for (std::size_t b = 0; b < a; ++b) plain = plain && nest.loops[a].reg != nest.loops[b].reg;
    }
    for (std::size_t outer = 0; outer < depth; ++outer) {
      nest.loops[outer].outdates = plain ? 0 : ~std::uint64_t{0};
      for (std::size_t inner = outer + 1; plain && inner < depth; ++inner) {
        for (const Operand& operand : nest.loops[inner].key) {
          if (operand.reads(nest.loops[outer].reg)) nest.loops[outer].outdates |= std::uint64_t{1} << inner;
        }
      }
    }
    for (std::size_t inner = 1; plain && inner < depth; ++inner) {
      const Loop& outer = nest.loops[inner - 1];
      bool reads = false;
      bool safe = nest.loops[inner].key.size() <= kMostAhead && !nest.loops[inner].ordered;
      for (const Operand& operand : nest.loops[inner].key) {
        if (!operand.reads(outer.reg)) continue;
        reads = true;
        safe = safe && operand.source == Operand::Source::kField && operand.table == outer.table;
      }
      nest.loops[inner].looks_ahead = reads && safe && !nest.loops[inner].own_group;
    }
    nest.product = plain && depth >= 2 && !nest.loops[depth - 2].ordered && !nest.loops[depth - 1].ordered &&
                   (nest.loops[depth - 2].outdates >> (depth - 1) & 1) == 0;
    return true;
  }

  // Visits callees before callers, without recursion; sets how much stack each needs, and all that each changes.
  void check_calls() {
    const std::size_t n = program_.procedures.size();
    enum : std::uint8_t { kNew, kOpen, kDone };
    std::vector<std::uint8_t> state(n, kNew);
    std::vector<std::pair<std::size_t, std::size_t>> path;  // Procedure, and which of its calls is next.
    for (std::size_t start = 0; start < n; ++start) {
      if (state[start] != kNew) continue;
      state[start] = kOpen;
      path.emplace_back(start, 0);
      while (!path.empty()) {
        const std::size_t p = path.back().first;
        if (path.back().second < calls_[p].size()) {
          const std::size_t callee = calls_[p][path.back().second++].procedure;
          if (state[callee] == kOpen) refuse("procedure " + std::to_string(callee) + " calls itself");
          if (state[callee] == kNew) {
            state[callee] = kOpen;
            path.emplace_back(callee, 0);
          }
        } else {
          finish_procedure(p);
          state[p] = kDone;
          path.pop_back();
        }
      }
    }
  }

  void finish_procedure(std::size_t p) {
    Procedure& procedure = program_.procedures[p];
    std::size_t below = 0;
    for (const CallSite& call : calls_[p]) {
      const Procedure& callee = program_.procedures[call.procedure];
      if (call.arguments != callee.parameters) refuse("a call has the wrong number of arguments");
      below = std::max(below, callee.stack);
      depths_[p] = std::max(depths_[p], call.depth + depths_[call.procedure]);
      append(changes_[p], changes_[call.procedure]);
      append(reads_[p], reads_[call.procedure]);
      append(procedure.emits, callee.emits);
    }
    if (depths_[p] > kMaxDepth) refuse("its blocks and calls are nested too deeply");
    procedure.stack = procedure.registers + below;
    procedure.reads_only = changes_[p].empty();
    make_set(changes_[p]);
    make_set(reads_[p]);
    make_set(procedure.emits);
    procedure.changes = changes_[p];
  }

  static void append(Tables& all, const Tables& more) { all.insert(all.end(), more.begin(), more.end()); }
  static void make_set(Tables& numbers) {
    std::sort(numbers.begin(), numbers.end());
    numbers.erase(std::unique(numbers.begin(), numbers.end()), numbers.end());
  }

  void check_scans() const {
    for (const auto& scan : scans_) {
      const auto has = [&](const Tables& tables) {
        return std::find(tables.begin(), tables.end(), scan->table) != tables.end();
      };
      bool bad = has(scan->changes);
      for (const std::size_t call : scan->calls) bad = bad || has(changes_[call]);
      if (bad) refuse("a scan's body changes table " + std::to_string(scan->table) + ", which it walks over");
    }
  }

  struct CallSite {
    std::size_t procedure;
    std::size_t arguments;
    std::size_t depth;
  };

  const Word* at_;
  const Word* end_;
  const ValueTable* values_;
  Program program_;
  std::size_t current_ = 0;
  std::size_t registers_ = 0;
  std::vector<std::uint32_t>* answers_ = nullptr;  // Of the cursor at hand.
  std::vector<std::size_t> depths_;
  std::vector<Tables> changes_;  // Of each procedure; in the end with what it calls.
  std::vector<Tables> reads_;    // The same, of the tables that it has to do with.
  Tables* tables_read_ = nullptr;  // Of the procedure or cursor at hand.
  std::vector<std::vector<CallSite>> calls_;
  std::vector<std::unique_ptr<ScanBody>> scans_;
  std::vector<ScanBody*> open_scans_;
};

}  // namespace everview

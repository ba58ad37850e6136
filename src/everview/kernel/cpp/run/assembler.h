// From blocks within blocks to flat code.
#pragma once

#include <stdexcept>
#include <string>

#include "program.h"

namespace everview {

// Writes the code of all procedures of a program that the decoder has checked. Blocks become runs of lines with jumps
// over them; the blocks themselves stay, for whoever wants to read what a procedure does (prefetch.h).
class Assembler {
 public:
  static void assemble(Program& program) {
    Assembler assembler(program);
    for (Procedure& procedure : program.procedures) {
      assembler.registers_ = procedure.registers;
      procedure.entry = assembler.here();
      assembler.block(procedure.body);
      assembler.add(Code::kReturn);
    }
  }

 private:
  using Op = Instruction::Op;
  static constexpr std::size_t kMostSlots = 65535;

  explicit Assembler(Program& program) : program_(program), lines_(program.lines) {}

  std::uint32_t here() const {
    if (lines_.size() > std::numeric_limits<std::uint32_t>::max()) throw std::invalid_argument("bad program: it is too long");
    return static_cast<std::uint32_t>(lines_.size());
  }

  std::uint32_t add(Code code, const Instruction* i = nullptr, const std::vector<Slot>& slots = {}) {
    const std::uint32_t at = here();
    Line line;
    line.code = code;
    if (i != nullptr) {
      line.detail = i->detail;
      line.reg = static_cast<std::uint16_t>(i->reg);
      line.other = static_cast<std::uint16_t>(i->number);
      if (i->table != nullptr) line.table = number_of(i->table);
    }
    if (slots.size() > kMostSlots) {
      throw std::invalid_argument("bad program: an instruction has " + std::to_string(slots.size()) + " operands");
    }
    line.count = static_cast<std::uint16_t>(slots.size());
    lines_.resize(lines_.size() + Line::lines(slots.size()));
    lines_[at] = line;
    fill(at, slots);
    program_.most_slots = std::max(program_.most_slots, slots.size());
    return at;
  }

  void fill(std::uint32_t at, const std::vector<Slot>& slots) {
    for (std::size_t s = 0; s < std::min<std::size_t>(slots.size(), 2); ++s) lines_[at].slots[s] = slots[s];
    if (slots.size() <= 2) return;
    std::memcpy(static_cast<void*>(lines_.data() + at + 1), slots.data() + 2, (slots.size() - 2) * sizeof(Slot));
  }

  std::uint32_t number_of(const Table* table) const {
    return static_cast<std::uint32_t>(table - program_.tables.data());
  }

  Slot slot(const Operand& operand) {
    Slot slot;
    slot.reg = static_cast<std::uint16_t>(operand.reg);
    switch (operand.source) {
      case Operand::Source::kRegister:
        slot.source = Slot::Source::kRegister;
        break;
      case Operand::Source::kLiteral:
        if (operand.literal == static_cast<std::int32_t>(operand.literal)) {
          slot.literal = static_cast<std::int32_t>(operand.literal);
        } else {
          slot.source = Slot::Source::kWide;
          slot.number = static_cast<std::uint32_t>(program_.wide.size());
          program_.wide.push_back(operand.literal);
        }
        break;
      case Operand::Source::kField:
        slot.source = Slot::Source::kField;
        slot.field.column = static_cast<std::uint16_t>(operand.column);
        slot.field.table = static_cast<std::uint16_t>(number_of(operand.table));
        break;
      case Operand::Source::kUpdate:
        slot.source = Slot::Source::kUpdate;
        break;
    }
    return slot;
  }

  std::vector<Slot> slots(const std::vector<Operand>& operands) {
    std::vector<Slot> found;
    for (const Operand& operand : operands) found.push_back(slot(operand));
    return found;
  }

  std::vector<Slot> slots(const std::vector<Output>& outputs) {
    std::vector<Slot> found;
    for (const Output& output : outputs) {
      if (output.is_wide()) {
        wide_slots(output, found);
        continue;
      }
      if (output.factors.size() != 1) {
        Slot& head = found.emplace_back();
        head.source = Slot::Source::kFactors;
        head.number = static_cast<std::uint32_t>(output.factors.size());
      }
      for (const Operand& operand : output.factors) found.push_back(slot(operand));
    }
    return found;
  }

  void wide_slots(const Output& output, std::vector<Slot>& found) {
    Slot& head = found.emplace_back();
    head.source = Slot::Source::kWideFactors;
    head.reg = static_cast<std::uint16_t>(output.words);
    head.number = static_cast<std::uint32_t>(output.widths.size());
    std::size_t at = 0;
    for (const std::size_t width : output.widths) {
      Slot& factor = found.emplace_back();
      factor.source = Slot::Source::kFactors;
      factor.number = static_cast<std::uint32_t>(width);
      for (std::size_t word = 0; word < width; ++word) found.push_back(slot(output.factors[at++]));
    }
  }

  void block(const Block& block) {
    for (const Instruction& i : block) instruction(i);
  }

  void instruction(const Instruction& i) {
    static constexpr Code kMath[] = {Code::kSum,    Code::kDifference, Code::kProduct,
                                      Code::kDivide, Code::kRemainder,  Code::kRoot,
                                      Code::kFloat,  Code::kFloat,      Code::kFloat,
                                      Code::kFloat,  Code::kFloat};
    static constexpr Code kTests[] = {Code::kIfEqual, Code::kIfNotEqual, Code::kIfLess, Code::kIfAtMost};
    switch (i.op) {
      case Op::kCompute:
        add(kMath[i.detail], &i, slots(i.operands));
        break;
      case Op::kFind:
        branches(add(Code::kFind, &i, slots(i.operands)), i.first, i.second);
        break;
      case Op::kInsert:
        add(Code::kInsert, &i, slots(i.operands));
        break;
      case Op::kRemove:
        add(Code::kRemove, &i);
        break;
      case Op::kStore:
        add(Code::kStore, &i, slots(i.operands));
        break;
      case Op::kSetLevel:
        add(Code::kSetLevel, &i);
        break;
      case Op::kGetLevel: {
        const std::uint32_t at = add(Code::kGetLevel, &i);
        lines_[at].other = static_cast<std::uint16_t>(i.row);
        break;
      }
      case Op::kCount:
        add(i.whole ? Code::kCountAll : i.own_group ? Code::kCountOwn : Code::kCount, &i, slots(i.operands));
        break;
      case Op::kIf:
        branches(add(kTests[i.detail], &i, slots(i.operands)), i.first, i.second);
        break;
      case Op::kEach:
        loop(i, Code::kEach, Code::kNextEach);
        break;
      case Op::kScan:
        loop(i, Code::kScan, Code::kNextScan);
        break;
      case Op::kEmit: {
        const std::uint32_t at = add(Code::kEmit, &i, slots(i.nest.outputs));
        lines_[at].jump = i.number;
        break;
      }
      case Op::kCall: {
        const std::uint32_t at = add(Code::kCall, &i, slots(i.operands));
        lines_[at].jump = i.number;
        lines_[at].table = registers_;
        break;
      }
      case Op::kSelect:
        branches(add(Code::kSelect, &i, slots(i.operands)), i.first, i.second);
        break;
      case Op::kRank: {
        const std::uint32_t at = add(Code::kRank, &i);
        lines_[at].slots[0].reg = static_cast<std::uint16_t>(i.row);
        lines_[at].jump = i.width;
        break;
      }
      case Op::kSize:
        add(Code::kSize, &i, slots(i.operands));
        break;
      case Op::kBefore: {
        const std::uint32_t at = add(Code::kBefore, &i, slots(i.operands));
        lines_[at].jump = i.width;
        break;
      }
      case Op::kAdd:
        addition(i);
        break;
      case Op::kSilent:
        add(Code::kSilence);
        block(i.first);
        add(Code::kSpeak);
        break;
      case Op::kWideCompute: {
        const std::uint32_t at = add(Code::kWideMath, &i, slots(i.operands));
        lines_[at].jump = i.width;
        break;
      }
      case Op::kWideIf:
        branches(add(Code::kWideIf, &i, slots(i.operands)), i.first, i.second);
        break;
      case Op::kNest: {
        const std::uint32_t at = add(Code::kNest, &i);
        lines_[at].jump = static_cast<std::uint32_t>(program_.nests.size());
        program_.nests.push_back(&i);
        break;
      }
    }
  }

  // The first block follows; what jumps goes to the second.
  void branches(std::uint32_t at, const Block& first, const Block& second) {
    block(first);
    if (second.empty()) {
      lines_[at].jump = here();
      return;
    }
    const std::uint32_t over = add(Code::kJump);
    lines_[at].jump = here();
    block(second);
    lines_[over].jump = here();
  }

  void loop(const Instruction& i, Code begin, Code next) {
    const Loop& loop = i.nest.loops[0];
    if (loop.whole) {
      begin = Code::kScanAll;
      next = Code::kNextAll;
    }
    const std::uint32_t at = add(begin, &i, slots(loop.key));
    lines_[at].reg = static_cast<std::uint16_t>(loop.reg);
    lines_[at].other = static_cast<std::uint16_t>(loop.index);
    lines_[at].table = number_of(loop.table);
    lines_[at].detail = static_cast<std::uint8_t>(loop.levels.packed() | (loop.own_group ? kOwnGroup : 0));
    const std::uint32_t body = here();
    block(i.first);
    if (begin == Code::kScan && finds_by(loop, body)) lines_[body].detail = kFoundAhead;
    const std::uint32_t end = add(next);
    lines_[end].reg = static_cast<std::uint16_t>(loop.reg);
    lines_[end].table = number_of(loop.table);
    lines_[end].jump = body;
    lines_[at].jump = here();
  }

  // Whether the line is a Find by words of the loop's row, and others that stay the same throughout.
  bool finds_by(const Loop& loop, std::uint32_t at) const {
    if (at == here() || lines_[at].code != Code::kFind) return false;
    const Line& find = lines_[at];
    bool by_row = false;
    for (std::size_t s = 0; s < find.count; ++s) {
      const Slot& slot = find.slots[s];
      if (slot.source != Slot::Source::kField) continue;
      if (slot.reg != loop.reg) return false;
      by_row = true;
    }
    return by_row;
  }

  // The three blocks follow, each but the last with a jump to the end; the first slots say where they are.
  void addition(const Instruction& i) {
    std::vector<Slot> all(3);
    for (Slot& target : all) target.source = Slot::Source::kTargets;
    for (const Slot& one : slots(i.operands)) all.push_back(one);
    const bool wide = i.operands.size() != i.table->key_width() + i.number;
    const std::uint32_t at = add(wide ? Code::kWideAdd : Code::kAdd, &i, all);
    const bool after = !i.second.empty();
    lines_[at].detail = !i.vanishes ? kStays : after ? kGoesAfter : kGoesAtOnce;
    std::vector<std::uint32_t> overs;
    const auto one = [&](const Block& body, bool removes) {
      const std::uint32_t start = here();
      block(body);
      if (removes) add(Code::kRemove, &i);
      if (!body.empty()) overs.push_back(add(Code::kJump));
      return start;
    };
    const std::uint32_t appeared = one(i.first, false);
    const std::uint32_t vanished = one(i.second, after);
    const std::uint32_t otherwise = here();
    block(i.third);
    const std::uint32_t end = here();
    for (const std::uint32_t over : overs) lines_[over].jump = end;
    all[0].number = i.first.empty() ? end : appeared;
    all[1].number = after ? vanished : end;
    all[2].number = end;
    fill(at, all);
    lines_[at].jump = otherwise;
  }

  Program& program_;
  std::vector<Line>& lines_;
  std::uint32_t registers_ = 0;
};

}  // namespace everview

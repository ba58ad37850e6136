// Fetches what the next updates of a batch will read while the present one runs.
#pragma once

#include "program.h"

namespace everview {

// A lookup that a procedure may make by words known before it begins: its parameters, and literals.
struct Probe {
  struct Source {
    enum class Kind : std::uint8_t { kUnknown, kParameter, kLiteral };

    Kind kind = Kind::kUnknown;
    std::uint32_t parameter = 0;
    Word literal = 0;

    bool operator==(const Source&) const = default;
    Word read(const std::vector<const Word*>& columns, std::size_t row) const noexcept {
      return kind == Kind::kParameter ? columns[parameter][row] : literal;
    }
  };
  // A test around the lookup.
  struct Guard {
    std::uint8_t test;
    bool wanted;
    Source a, b;

    bool operator==(const Guard&) const = default;
  };

  const Table* table;
  std::uint32_t index;  // Among the stored ones, by number: another state has other indexes. kNotStored: the table's hash.
  std::vector<Source> key;
  std::vector<Guard> guards;

  bool is_group() const noexcept { return index != Table::kNotStored; }
  const GroupIndex& groups() const noexcept { return table->stored_indexes()[index]; }
};

// Finds a procedure's probes, walking its body and what it calls and following which registers hold parameters, and which
// hold rows that were found or inserted by them. Branches are walked one after the other: a register may then be taken for
// what it holds in another branch, which a hint can afford.
class ProbeFinder {
 public:
  static std::vector<Probe> find(const Program& program, const Procedure& procedure) {
    ProbeFinder finder(program);
    Registers registers(procedure.registers);
    for (std::uint32_t i = 0; i < procedure.parameters; ++i) {
      registers[i].word = {Probe::Source::Kind::kParameter, i, 0};
    }
    finder.walk(procedure.body, registers);
    return std::move(finder.probes_);
  }

 private:
  using Source = Probe::Source;
  using Op = Instruction::Op;
  static constexpr std::size_t kMostProbes = 32;  // More would cost more than they save.
  static constexpr std::size_t kMostVisits = 20000;

  struct Known {
    Source word;
    const Table* table = nullptr;  // A row of it, with this key.
    std::vector<Source> key;
  };
  using Registers = std::vector<Known>;

  explicit ProbeFinder(const Program& program) : program_(program) {}

  static Source known(const Operand& operand, const Registers& registers) {
    switch (operand.source) {
      case Operand::Source::kRegister:
        return registers[operand.reg].word;
      case Operand::Source::kLiteral:
        return {Source::Kind::kLiteral, 0, operand.literal};
      case Operand::Source::kField: {
        const Known& row = registers[operand.reg];
        if (row.table == operand.table && operand.column < row.key.size()) return row.key[operand.column];
        return {};
      }
      case Operand::Source::kUpdate:
        return {};
    }
    __builtin_unreachable();
  }

  static std::vector<Source> known(const std::vector<Operand>& operands, const Registers& registers) {
    std::vector<Source> words;
    for (const Operand& operand : operands) words.push_back(known(operand, registers));
    return words;
  }

  void walk(const Block& block, Registers& registers) {
    for (const Instruction& i : block) {
      if (++visits_ > kMostVisits || probes_.size() == kMostProbes) return;
      visit(i, registers);
    }
  }

  void visit(const Instruction& i, Registers& registers) {
    switch (i.op) {
      case Op::kFind:
      case Op::kInsert:
      case Op::kAdd: {
        std::vector<Source> key = known(i.operands, registers);
        key.resize(i.table->key_width());
        add(*i.table, Table::kNotStored, key);
        if (i.op != Op::kFind) {
          for (std::size_t index = 0; index < i.table->index_count(); ++index) {
            std::vector<Source> words;
            for (const std::uint32_t column : i.table->columns(index)) words.push_back(key[column]);
            add_group(*i.table, index, words);
          }
        }
        registers[i.reg] = {{}, i.table, std::move(key)};
        walk(i.first, registers);
        walk(i.second, registers);
        walk(i.third, registers);
        break;
      }
      case Op::kWideCompute:
        std::fill_n(registers.begin() + i.reg, i.width, Known());
        break;
      case Op::kWideIf:
        walk(i.first, registers);
        walk(i.second, registers);
        break;
      case Op::kCompute:
      case Op::kGetLevel:
      case Op::kRank:
      case Op::kSize:
      case Op::kBefore:
        registers[i.reg] = {};
        break;
      case Op::kSelect:
        registers[i.reg] = {};
        walk(i.first, registers);
        walk(i.second, registers);
        break;
      case Op::kCount:
        add_group(*i.table, i.number, known(i.operands, registers));
        registers[i.reg] = {};
        break;
      case Op::kEach:
      case Op::kScan:
      case Op::kNest:
        for (const Loop& loop : i.nest.loops) {
          add_group(*loop.table, loop.index, known(loop.key, registers));
          registers[loop.reg] = {};
        }
        walk(i.first, registers);
        break;
      case Op::kIf: {
        const Source a = known(i.operands[0], registers);
        const Source b = known(i.operands[1], registers);
        const bool told = a.kind != Source::Kind::kUnknown && b.kind != Source::Kind::kUnknown;
        if (told) guards_.push_back({i.detail, true, a, b});
        walk(i.first, registers);
        if (told) guards_.back().wanted = false;
        walk(i.second, registers);
        if (told) guards_.pop_back();
        break;
      }
      case Op::kCall: {
        const Procedure& called = program_.procedures[i.number];
        Registers own(called.registers);
        for (std::size_t a = 0; a < i.operands.size(); ++a) {
          if (i.operands[a].source == Operand::Source::kRegister) {
            own[a] = registers[i.operands[a].reg];
          } else {
            own[a].word = known(i.operands[a], registers);
          }
        }
        walk(called.body, own);
        break;
      }
      case Op::kSilent:
        walk(i.first, registers);
        break;
      case Op::kRemove:
      case Op::kStore:
      case Op::kSetLevel:
      case Op::kEmit:
        break;
    }
  }

  void add_group(const Table& table, std::size_t index, const std::vector<Source>& words) {
    const std::uint32_t stored = table.stored_number(index);
    if (stored != Table::kNotStored) return add(table, stored, words);
    std::vector<Source> key(words.size());
    for (std::size_t i = 0; i < words.size(); ++i) key[table.columns(index)[i]] = words[i];
    add(table, Table::kNotStored, key);
  }

  void add(const Table& table, std::uint32_t index, const std::vector<Source>& key) {
    bool by_parameter = false;
    for (const Source& source : key) {
      if (source.kind == Source::Kind::kUnknown) return;
      by_parameter = by_parameter || source.kind == Source::Kind::kParameter;
    }
    if (!by_parameter) return;  // Always the same place.
    for (Probe& probe : probes_) {
      if (probe.table != &table || probe.index != index || probe.key != key) continue;
      std::erase_if(probe.guards, [&](const Probe::Guard& guard) {
        return std::find(guards_.begin(), guards_.end(), guard) == guards_.end();
      });
      return;
    }
    probes_.push_back({&table, index, key, guards_});
  }

  const Program& program_;
  std::vector<Probe> probes_;
  std::vector<Probe::Guard> guards_;
  std::size_t visits_ = 0;
};

// Tables of fewer bytes are near anyway; tests put 0 here, so that everything is fetched ahead.
inline std::size_t prefetch_from_bytes = std::size_t{128} << 10;

// Takes the lookups of the coming updates through four steps, each of which reads what the step before has fetched: the
// slot; the row, or the group's header; the group's members; their rows. It changes nothing, and what it reads may be out
// of date by the time the update runs.
class Prefetcher {
 public:
  explicit Prefetcher(std::vector<Probe> probes) : probes_(std::move(probes)), found_(probes_.size() * kRing) {
    far_.reserve(probes_.size());
  }

  void begin(const std::vector<const Word*>& columns, std::size_t rows) noexcept {
    columns_ = &columns;
    rows_ = rows;
    far_.clear();
  }

  // To be called before each update.
  void advance(std::size_t row) noexcept {
    if (row % kChecked == 0 && look_at_sizes()) {
      for (std::size_t next = row; next < std::min(rows_, row + kRing); ++next) fetch_slots(next);
    }
    if (far_.empty()) return;
    if (row + 3 * kStep < rows_) fetch_heads(row + 3 * kStep);
    if (row + 2 * kStep < rows_) fetch_members(row + 2 * kStep);
    if (row + kStep < rows_) fetch_rows(row + kStep);
    if (row + kRing < rows_) fetch_slots(row + kRing);
  }

 private:
  static constexpr std::size_t kStep = 4;
  static constexpr std::size_t kRing = 4 * kStep;

  static constexpr std::size_t kChecked = 1024;  // Updates between two looks at the tables' sizes.

  // Which lookups are worth it now; whether these are others than before.
  bool look_at_sizes() noexcept {
    std::size_t kept = 0;
    bool changed = false;
    for (const Probe& probe : probes_) {
      if (probe.table->nbytes() < prefetch_from_bytes) continue;
      if (kept == far_.size()) far_.push_back(nullptr);
      changed |= std::exchange(far_[kept++], &probe) != &probe;
    }
    changed |= kept != far_.size();
    far_.resize(kept);
    return changed;
  }

  std::uint32_t* found(std::size_t row) noexcept { return found_.data() + row % kRing * probes_.size(); }

  void fetch_slots(std::size_t row) noexcept {
    std::uint32_t* const tags = found(row);
    for (std::size_t p = 0; p < far_.size(); ++p) {
      const Probe& probe = *far_[p];
      tags[p] = kNoRow;
      if (!passes(probe, row)) continue;
      Hasher hasher;
      for (const Probe::Source& source : probe.key) hasher.add(source.read(*columns_, row));
      tags[p] = hasher.tag();
      probe.is_group() ? probe.groups().prefetch_slot(tags[p]) : probe.table->prefetch_slot(tags[p]);
    }
  }

  bool passes(const Probe& probe, std::size_t row) const noexcept {
    for (const Probe::Guard& guard : probe.guards) {
      const bool holds = test_words(guard.test, guard.a.read(*columns_, row), guard.b.read(*columns_, row));
      if (holds != guard.wanted) return false;
    }
    return true;
  }

  void fetch_heads(std::size_t row) noexcept {
    std::uint32_t* const numbers = found(row);
    for (std::size_t p = 0; p < far_.size(); ++p) {
      if (numbers[p] == kNoRow) continue;
      const Probe& probe = *far_[p];
      numbers[p] = probe.is_group() ? probe.groups().prefetch_group(numbers[p]) : probe.table->prefetch_row(numbers[p]);
    }
  }

  void fetch_members(std::size_t row) noexcept {
    const std::uint32_t* const numbers = found(row);
    for (std::size_t p = 0; p < far_.size(); ++p) {
      if (numbers[p] != kNoRow && far_[p]->is_group()) far_[p]->groups().prefetch_members(numbers[p]);
    }
  }

  void fetch_rows(std::size_t row) noexcept {
    const std::uint32_t* const numbers = found(row);
    for (std::size_t p = 0; p < far_.size(); ++p) {
      const Probe& probe = *far_[p];
      if (numbers[p] != kNoRow && probe.is_group()) probe.groups().prefetch_rows(numbers[p], probe.table->view());
    }
  }

  std::vector<Probe> probes_;
  std::vector<std::uint32_t> found_;  // Of the next rows' probes: tags, then numbers of rows and groups.
  const std::vector<const Word*>* columns_ = nullptr;
  std::size_t rows_ = 0;
  std::vector<const Probe*> far_;  // Those of large tables.
};

}  // namespace everview

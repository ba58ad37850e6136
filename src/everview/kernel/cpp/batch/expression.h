// Expressions over words: what `everview/query/column_expression.py` can say, computed for some rows at a time.
#pragma once

#include <stdexcept>
#include <vector>

#include "../values/value_table.h"
#include "exact.h"

namespace everview {

// A column that expressions read: words, the lowest of which is NULL; or exact numbers with marks for NULL.
struct Source {
  const Word* words = nullptr;
  const Exact* exact = nullptr;
  const std::uint8_t* nulls = nullptr;
};

// Numbers and texts that expressions compare with. A text is the id that it has when a batch is run.
class Constants {
 public:
  void add_number(Exact number) { numbers_.push_back(number); }
  void add_text(std::string text) {
    texts_.emplace_back(numbers_.size(), std::move(text));
    numbers_.push_back(ValueTable::kUnknown);
  }
  // Looks the texts up: their ids change as strings come and go.
  void resolve(const ValueTable* values) {
    for (const auto& [at, text] : texts_) {
      if (values == nullptr) throw std::invalid_argument("there is no table of values");
      const std::int32_t offsets[2] = {0, static_cast<std::int32_t>(text.size())};
      ValueColumn column;
      column.short_offsets = offsets;
      column.bytes = text.data();
      column.size = 1;
      Word id = 0;
      values->lookup(kText, column, &id);
      numbers_[at] = id;
    }
  }
  Exact operator[](std::size_t at) const noexcept { return numbers_[at]; }
  std::size_t size() const noexcept { return numbers_.size(); }

  static constexpr ValueKind kText = 0;

 private:
  std::vector<Exact> numbers_;
  std::vector<std::pair<std::size_t, std::string>> texts_;
};

inline constexpr std::size_t kRun = 128;  // Rows that are computed together.

// The values of some rows. Where a row is null its value is anything.
struct Values {
  Exact values[kRun];
  std::uint8_t nulls[kRun];
};

// A postfix program over a stack of values. NULL in, NULL out, but for AND, OR and IS NULL.
class Expression {
 public:
  enum class Op : std::uint8_t {
    kColumn, kConstant, kAdd, kSubtract, kMultiply, kRemainder, kCommonBits, kNegate, kCast, kEqual, kDiffers, kLess,
    kAtMost, kAnd, kOr, kNot, kIsNull, kIn,
  };

  Expression() = default;

  // `code` is as `everview/engine/direct/expressions.py` writes it.
  Expression(const std::vector<Word>& code, std::size_t columns, std::size_t constants) {
    std::size_t at = 0, depth = 0;
    const auto next = [&] {
      if (at == code.size()) throw std::invalid_argument("an expression ends too early");
      return code[at++];
    };
    const auto number = [&](std::size_t below) {
      const Word found = next();
      if (found < 0 || static_cast<std::size_t>(found) >= below) throw std::invalid_argument("bad operand");
      return static_cast<std::uint32_t>(found);
    };
    const auto takes = [&](std::size_t count) {
      if (depth < count) throw std::invalid_argument("an expression lacks an argument");
      depth -= count;
    };
    while (at < code.size()) {
      Step step;
      step.op = static_cast<Op>(number(static_cast<std::size_t>(Op::kIn) + 1));
      switch (step.op) {
        case Op::kColumn:
          step.number = number(columns);
          break;
        case Op::kConstant:
          step.number = number(constants);
          break;
        case Op::kAdd:
        case Op::kSubtract:
        case Op::kMultiply:
        case Op::kRemainder:
        case Op::kCommonBits:
          step.left = power_of_ten(number(kMostDigits + 1));
          step.right = power_of_ten(number(kMostDigits + 1));
          step.limit = Limit::of(next());
          takes(2);
          break;
        case Op::kNegate:
        case Op::kCast:
          step.left = power_of_ten(number(kMostDigits + 1));
          step.limit = Limit::of(next());
          takes(1);
          break;
        case Op::kNot:
        case Op::kIsNull:
          takes(1);
          break;
        case Op::kIn:
          for (std::uint32_t left = number(1u << 20); left != 0; --left) step.members.push_back(number(constants));
          takes(1);
          break;
        default:
          takes(2);
      }
      most_ = std::max(most_, ++depth);
      steps_.push_back(std::move(step));
    }
    if (depth != 1) throw std::invalid_argument("an expression has more or less than one value");
  }

  // The values of rows `first` up to `first + count`, which are in `stack[0]` then; false if one of those `among` has
  // none: a result beyond its type. `among` has a mark for each row from the first of all on; none: all.
  bool compute(const std::vector<Source>& columns, const Constants& constants, std::size_t first, std::size_t count,
               const std::uint8_t* among, std::vector<Values>& stack) const {
    if (stack.size() < most_) stack.resize(most_);
    std::size_t top = 0;  // Behind the last value.
    for (const Step& step : steps_) {
      if (step.op == Op::kColumn) {
        load(columns[step.number], first, count, stack[top++]);
        continue;
      }
      if (step.op == Op::kConstant) {
        std::fill_n(stack[top].values, count, constants[step.number]);
        std::fill_n(stack[top++].nulls, count, std::uint8_t{0});
        continue;
      }
      const bool binary = is_binary(step.op);
      Values& a = stack[top - (binary ? 2 : 1)];
      if (!run(step, a, stack[top - 1], constants, count, among == nullptr ? nullptr : among + first)) return false;
      if (binary) --top;
    }
    return true;
  }

 private:
  struct Step {
    Op op = Op::kColumn;
    std::uint32_t number = 0;
    Exact left = 1, right = 1;  // What the arguments are multiplied by first, to have the result's scale.
    Limit limit;
    std::vector<std::uint32_t> members;
  };

  static bool is_binary(Op op) noexcept {
    return op != Op::kNegate && op != Op::kCast && op != Op::kNot && op != Op::kIsNull && op != Op::kIn;
  }

  static void load(const Source& source, std::size_t first, std::size_t count, Values& out) noexcept {
    if (source.words != nullptr) {
      const Word* const words = source.words + first;
      for (std::size_t i = 0; i < count; ++i) {
        out.values[i] = words[i];
        out.nulls[i] = words[i] == ValueTable::kNull;
      }
      return;
    }
    std::copy_n(source.exact + first, count, out.values);
    std::copy_n(source.nulls + first, count, out.nulls);
  }

  // Exact results, or false where one of a row that counts is beyond the limit.
  template <class Compute>
  static bool arithmetic(const Step& step, Values& a, const Values* b, std::size_t count, const std::uint8_t* among,
                         Compute&& compute) {
    for (std::size_t i = 0; i < count; ++i) {
      if (b != nullptr) a.nulls[i] |= b->nulls[i];
      if (a.nulls[i] != 0) continue;
      Exact left = a.values[i], right = b == nullptr ? 0 : b->values[i], result = 0;
      bool overflows = __builtin_mul_overflow(left, step.left, &left);
      overflows |= __builtin_mul_overflow(right, step.right, &right);
      overflows = overflows || compute(left, right, result) || !step.limit.holds(result);
      if (overflows && (among == nullptr || among[i] != 0)) return false;
      a.values[i] = result;
    }
    return true;
  }

  template <class Compare>
  static void compared(Values& a, const Values& b, std::size_t count, Compare&& compare) noexcept {
    for (std::size_t i = 0; i < count; ++i) {
      a.nulls[i] |= b.nulls[i];
      a.values[i] = compare(a.values[i], b.values[i]) ? 1 : 0;
    }
  }

  static bool run(const Step& step, Values& a, const Values& b, const Constants& constants, std::size_t count,
                  const std::uint8_t* among) {
    switch (step.op) {
      case Op::kAdd:
        return arithmetic(step, a, &b, count, among,
                          [](Exact x, Exact y, Exact& z) { return __builtin_add_overflow(x, y, &z); });
      case Op::kSubtract:
        return arithmetic(step, a, &b, count, among,
                          [](Exact x, Exact y, Exact& z) { return __builtin_sub_overflow(x, y, &z); });
      case Op::kMultiply:
        return arithmetic(step, a, &b, count, among,
                          [](Exact x, Exact y, Exact& z) { return __builtin_mul_overflow(x, y, &z); });
      case Op::kRemainder:
        return arithmetic(step, a, &b, count, among, [](Exact x, Exact y, Exact& z) {
          if (y == 0) return true;
          z = x % y;
          return false;
        });
      case Op::kCommonBits:
        return arithmetic(step, a, &b, count, among, [](Exact x, Exact y, Exact& z) {
          z = x & y;
          return false;
        });
      case Op::kNegate:
        return arithmetic(step, a, nullptr, count, among, [](Exact x, Exact, Exact& z) {
          z = -x;
          return false;
        });
      case Op::kCast:
        return arithmetic(step, a, nullptr, count, among, [](Exact x, Exact, Exact& z) {
          z = x;
          return false;
        });
      case Op::kEqual:
        compared(a, b, count, [](Exact x, Exact y) { return x == y; });
        return true;
      case Op::kDiffers:
        compared(a, b, count, [](Exact x, Exact y) { return x != y; });
        return true;
      case Op::kLess:
        compared(a, b, count, [](Exact x, Exact y) { return x < y; });
        return true;
      case Op::kAtMost:
        compared(a, b, count, [](Exact x, Exact y) { return x <= y; });
        return true;
      case Op::kAnd:
        for (std::size_t i = 0; i < count; ++i) {
          const bool no = (a.nulls[i] == 0 && a.values[i] == 0) || (b.nulls[i] == 0 && b.values[i] == 0);
          a.nulls[i] = !no && (a.nulls[i] != 0 || b.nulls[i] != 0);
          a.values[i] = no ? 0 : 1;
        }
        return true;
      case Op::kOr:
        for (std::size_t i = 0; i < count; ++i) {
          const bool yes = (a.nulls[i] == 0 && a.values[i] != 0) || (b.nulls[i] == 0 && b.values[i] != 0);
          a.nulls[i] = !yes && (a.nulls[i] != 0 || b.nulls[i] != 0);
          a.values[i] = yes ? 1 : 0;
        }
        return true;
      case Op::kNot:
        for (std::size_t i = 0; i < count; ++i) a.values[i] = a.values[i] == 0 ? 1 : 0;
        return true;
      case Op::kIsNull:
        for (std::size_t i = 0; i < count; ++i) {
          a.values[i] = a.nulls[i];
          a.nulls[i] = 0;
        }
        return true;
      case Op::kIn:
        for (std::size_t i = 0; i < count; ++i) {
          bool found = false;
          for (const std::uint32_t member : step.members) found |= a.values[i] == constants[member];
          a.values[i] = found ? 1 : 0;
        }
        return true;
      default:
        return false;
    }
  }

  std::vector<Step> steps_;
  std::size_t most_ = 0;
};

}  // namespace everview

// Expressions over words: what `everview/sql/word_expressions.py` can say, computed for some rows at a time.
#pragma once

#include <stdexcept>
#include <vector>

#include "../values/value_table.h"
#include "calendar.h"
#include "types.h"

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
  // Gives those texts ids that stand in rows that are told; before any are looked up.
  void store(ValueTable* values) const {
    for (const std::size_t at : stored_) {
      if (values == nullptr) throw std::invalid_argument("there is no table of values");
      const std::string_view stored = text(at);
      const std::int32_t offsets[2] = {0, static_cast<std::int32_t>(stored.size())};
      ValueColumn column;
      column.short_offsets = offsets;
      column.bytes = stored.data();
      column.size = 1;
      Word id = 0;
      values->encode(kText, column, &id);
    }
  }
  void stored(std::size_t at) {
    const auto is_it = [&](const auto& text) { return text.first == at; };
    if (std::any_of(texts_.begin(), texts_.end(), is_it)) stored_.push_back(at);
  }

  // Looks the texts up: their ids change as strings come and go.
  void resolve(const ValueTable* values) {
    values_ = values;
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
  std::string_view text(std::size_t at) const {
    for (const auto& [place, text] : texts_) {
      if (place == at) return text;
    }
    throw std::invalid_argument("a constant is no text");
  }
  // The bytes of a value by its id.
  std::string_view text_of(Word id) const { return values_->bytes_of(id); }
  std::size_t size() const noexcept { return numbers_.size(); }

  static constexpr ValueKind kText = 0;

 private:
  const ValueTable* values_ = nullptr;
  std::vector<Exact> numbers_;
  std::vector<std::pair<std::size_t, std::string>> texts_;
  std::vector<std::size_t> stored_;
};

inline constexpr std::size_t kRun = 128;  // Rows that are computed together.

// Marks: the value is there, it is NULL, or there is none: a result beyond its type, a division by zero.
inline constexpr std::uint8_t kIsThere = 0, kIsNull = 1, kHasFailed = 2;

// The values of some rows. Where a row is null, or has failed, its value is anything.
struct Values {
  Exact values[kRun];
  std::uint8_t nulls[kRun];
};

// Whether a text is like a pattern, in which % is any text and _ any character.
inline bool is_like(std::string_view text, std::string_view pattern) noexcept {
  std::size_t at = 0, in = 0, again = std::string_view::npos, from = 0;  // From where to go on behind the last %.
  const auto behind = [&](std::size_t place) {
    for (++place; place < text.size() && (static_cast<unsigned char>(text[place]) & 0xC0) == 0x80;) ++place;
    return place;
  };
  while (at < text.size()) {
    if (in < pattern.size() && pattern[in] == '%') {
      again = ++in;
      from = at;
    } else if (in < pattern.size() && pattern[in] == '_') {
      at = behind(at);
      ++in;
    } else if (in < pattern.size() && pattern[in] == text[at]) {
      ++at;
      ++in;
    } else if (again != std::string_view::npos) {
      at = from = behind(from);
      in = again;
    } else {
      return false;
    }
  }
  while (in < pattern.size() && pattern[in] == '%') ++in;
  return in == pattern.size();
}

// A postfix program over a stack of values. NULL in, NULL out, but for AND, OR, IS NULL and IF. What has failed fails
// whatever is computed of it, unless AND and OR are decided before, or IF does not choose it.
class Expression {
 public:
  enum class Op : std::uint8_t {
    kColumn, kConstant, kAdd, kSubtract, kMultiply, kRemainder, kCommonBits, kNegate, kCast, kEqual, kDiffers, kLess,
    kAtMost, kAnd, kOr, kNot, kIsNull, kIn, kIf, kNothing, kModulo, kDivide, kPart, kInstant, kLike, kToDouble,
    kAddDoubles, kSubtractDoubles, kMultiplyDoubles, kDivideDoubles, kEqualDoubles, kLessDoubles, kAtMostDoubles,
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
      step.op = static_cast<Op>(number(static_cast<std::size_t>(Op::kAtMostDoubles) + 1));
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
        case Op::kModulo:
        case Op::kDivide:
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
        case Op::kInstant:
          takes(1);
          break;
        case Op::kNothing:
          break;
        case Op::kIf:
          takes(3);
          break;
        case Op::kPart:
          step.number = number(kParts);
          takes(1);
          break;
        case Op::kLike:
          step.number = number(constants);
          takes(1);
          break;
        case Op::kToDouble:
          step.left = power_of_ten(number(kMostExactPower + 1));
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
        std::fill_n(stack[top++].nulls, count, kIsThere);
        continue;
      }
      if (step.op == Op::kNothing) {
        std::fill_n(stack[top++].nulls, count, kIsNull);
        continue;
      }
      if (step.op == Op::kIf) {
        choose(stack[top - 3], stack[top - 2], stack[top - 1], count);
        top -= 2;
        continue;
      }
      const bool binary = is_binary(step.op);
      run(step, stack[top - (binary ? 2 : 1)], stack[top - 1], constants, count);
      if (binary) --top;
    }
    for (std::size_t i = 0; i < count; ++i) {
      if (stack[0].nulls[i] == kHasFailed && (among == nullptr || among[first + i] != 0)) return false;
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
    switch (op) {
      case Op::kNegate:
      case Op::kCast:
      case Op::kNot:
      case Op::kIsNull:
      case Op::kIn:
      case Op::kPart:
      case Op::kInstant:
      case Op::kLike:
      case Op::kToDouble:
        return false;
      default:
        return true;
    }
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

  // Of values that are there what is computed of them; `compute` says whether that fails.
  template <class Compute>
  static void each(Values& a, const Values* b, std::size_t count, Compute&& compute) {
    for (std::size_t i = 0; i < count; ++i) {
      if (b != nullptr) a.nulls[i] = std::max(a.nulls[i], b->nulls[i]);
      if (a.nulls[i] == kIsThere && compute(a.values[i], b == nullptr ? 0 : b->values[i], a.values[i])) a.nulls[i] = kHasFailed;
    }
  }

  // The same of arguments that are brought to the result's scale first, and within its limit.
  template <class Compute>
  static void arithmetic(const Step& step, Values& a, const Values* b, std::size_t count, Compute&& compute) {
    each(a, b, count, [&](Exact left, Exact right, Exact& out) {
      Exact result = 0;
      if (__builtin_mul_overflow(left, step.left, &left) || __builtin_mul_overflow(right, step.right, &right)) return true;
      if (compute(left, right, result) || !step.limit.holds(result)) return true;
      out = result;
      return false;
    });
  }

  template <class Compare>
  static void compared(Values& a, const Values& b, std::size_t count, Compare&& compare) {
    each(a, &b, count, [&](Exact x, Exact y, Exact& z) {
      z = compare(x, y) ? 1 : 0;
      return false;
    });
  }

  // Doubles whose result is one; what would become infinite, or not a number, is left to others to judge.
  template <class Compute>
  static void of_doubles(Values& a, const Values& b, std::size_t count, Compute&& compute) {
    each(a, &b, count, [&](Exact x, Exact y, Exact& z) {
      double result = 0;
      if (compute(double_of_word(low_word(x)), double_of_word(low_word(y)), result) || result - result != 0.0) return true;
      z = word_of_double(result);
      return false;
    });
  }

  // NaN equals itself, and is the greatest.
  template <class Compare>
  static void compared_doubles(Values& a, const Values& b, std::size_t count, Compare&& compare) {
    compared(a, b, count, [&](Exact x, Exact y) {
      const double left = double_of_word(low_word(x)), right = double_of_word(low_word(y));
      return compare(left != left ? (right != right ? 0 : 1) : right != right ? -1 : left < right ? -1 : left > right ? 1 : 0);
    });
  }

  static void choose(Values& condition, const Values& then, const Values& otherwise, std::size_t count) noexcept {
    for (std::size_t i = 0; i < count; ++i) {
      if (condition.nulls[i] == kHasFailed) continue;
      const Values& chosen = condition.nulls[i] == kIsThere && condition.values[i] != 0 ? then : otherwise;
      condition.nulls[i] = chosen.nulls[i];
      condition.values[i] = chosen.values[i];
    }
  }

  // `deciding` is the value that decides: 0 of AND, 1 of OR. The left side is looked at first.
  static void joined(Values& a, const Values& b, std::size_t count, bool deciding) noexcept {
    for (std::size_t i = 0; i < count; ++i) {
      if (a.nulls[i] == kHasFailed || (a.nulls[i] == kIsThere && (a.values[i] != 0) == deciding)) continue;
      if (b.nulls[i] != kIsNull) {
        if (b.nulls[i] == kHasFailed || (b.values[i] != 0) == deciding || a.nulls[i] == kIsThere) {
          a.nulls[i] = b.nulls[i];
          a.values[i] = b.values[i] != 0 ? 1 : 0;
        }
      } else {
        a.nulls[i] = kIsNull;
      }
    }
  }

  static void run(const Step& step, Values& a, const Values& b, const Constants& constants, std::size_t count) {
    switch (step.op) {
      case Op::kAdd:
        return arithmetic(step, a, &b, count, [](Exact x, Exact y, Exact& z) { return __builtin_add_overflow(x, y, &z); });
      case Op::kSubtract:
        return arithmetic(step, a, &b, count, [](Exact x, Exact y, Exact& z) { return __builtin_sub_overflow(x, y, &z); });
      case Op::kMultiply:
        return arithmetic(step, a, &b, count, [](Exact x, Exact y, Exact& z) { return __builtin_mul_overflow(x, y, &z); });
      case Op::kRemainder:
        return arithmetic(step, a, &b, count, [](Exact x, Exact y, Exact& z) { return y == 0 || ((z = x % y), false); });
      case Op::kModulo:
        return arithmetic(step, a, &b, count, [](Exact x, Exact y, Exact& z) {
          if (y <= 0) return true;
          z = (x % y + y) % y;
          return false;
        });
      case Op::kDivide:  // Halves are rounded away from zero.
        return arithmetic(step, a, &b, count, [](Exact x, Exact y, Exact& z) {
          if (y == 0) return true;
          const Magnitude above = magnitude_of(x), below = magnitude_of(y), rest = above % below;
          const Magnitude rounded = above / below + (rest >= below - rest ? 1 : 0);
          z = static_cast<Exact>(rounded);
          if ((x < 0) != (y < 0)) z = -z;
          return false;
        });
      case Op::kCommonBits:
        return arithmetic(step, a, &b, count, [](Exact x, Exact y, Exact& z) { return (z = x & y), false; });
      case Op::kNegate:
        return arithmetic(step, a, nullptr, count, [](Exact x, Exact, Exact& z) { return (z = -x), false; });
      case Op::kCast:
        return arithmetic(step, a, nullptr, count, [](Exact x, Exact, Exact& z) { return (z = x), false; });
      case Op::kEqual:
        return compared(a, b, count, [](Exact x, Exact y) { return x == y; });
      case Op::kDiffers:
        return compared(a, b, count, [](Exact x, Exact y) { return x != y; });
      case Op::kLess:
        return compared(a, b, count, [](Exact x, Exact y) { return x < y; });
      case Op::kAtMost:
        return compared(a, b, count, [](Exact x, Exact y) { return x <= y; });
      case Op::kAnd:
        return joined(a, b, count, false);
      case Op::kOr:
        return joined(a, b, count, true);
      case Op::kNot:
        for (std::size_t i = 0; i < count; ++i) a.values[i] = a.values[i] == 0 ? 1 : 0;
        return;
      case Op::kIsNull:
        for (std::size_t i = 0; i < count; ++i) {
          if (a.nulls[i] == kHasFailed) continue;
          a.values[i] = a.nulls[i];
          a.nulls[i] = kIsThere;
        }
        return;
      case Op::kIn:
        for (std::size_t i = 0; i < count; ++i) {
          bool found = false;
          for (const std::uint32_t member : step.members) found |= a.values[i] == constants[member];
          a.values[i] = found ? 1 : 0;
        }
        return;
      case Op::kPart:
        return each(a, nullptr, count, [&](Exact x, Exact, Exact& z) { return (z = part_of_time(step.number, low_word(x))), false; });
      case Op::kInstant:
        return each(a, nullptr, count, [](Exact x, Exact, Exact&) { return x < kFirstInstant || x > kLastInstant; });
      case Op::kLike: {
        const std::string_view pattern = constants.text(step.number);
        return each(a, nullptr, count, [&](Exact x, Exact, Exact& z) {
          return (z = is_like(constants.text_of(low_word(x)), pattern) ? 1 : 0), false;
        });
      }
      case Op::kToDouble: {
        constexpr Exact kExactly = Exact{1} << 53;
        return each(a, nullptr, count, [&](Exact x, Exact, Exact& z) {
          if (step.left != 1 && (x > kExactly || x < -kExactly)) return true;
          z = word_of_double(static_cast<double>(x) / static_cast<double>(step.left));
          return false;
        });
      }
      case Op::kAddDoubles:
        return of_doubles(a, b, count, [](double x, double y, double& z) { return (z = x + y), false; });
      case Op::kSubtractDoubles:
        return of_doubles(a, b, count, [](double x, double y, double& z) { return (z = x - y), false; });
      case Op::kMultiplyDoubles:
        return of_doubles(a, b, count, [](double x, double y, double& z) { return (z = x * y), false; });
      case Op::kDivideDoubles:
        return of_doubles(a, b, count, [](double x, double y, double& z) { return y == 0.0 || ((z = x / y), false); });
      case Op::kEqualDoubles:
        return compared_doubles(a, b, count, [](int order) { return order == 0; });
      case Op::kLessDoubles:
        return compared_doubles(a, b, count, [](int order) { return order < 0; });
      case Op::kAtMostDoubles:
        return compared_doubles(a, b, count, [](int order) { return order <= 0; });
      case Op::kColumn:
      case Op::kConstant:
      case Op::kNothing:
      case Op::kIf:
        return;  // They have been done.
    }
  }

  static constexpr unsigned kMostExactPower = 22;  // Ten to so much is a double.

  std::vector<Step> steps_;
  std::size_t most_ = 0;
};

}  // namespace everview

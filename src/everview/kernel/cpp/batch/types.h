// The types of columns on their way in and out, as `everview/engine/direct/columns.py` numbers them.
#pragma once

#include <stdexcept>
#include <vector>

#include "../values/value_table.h"
#include "exact.h"

namespace everview {

struct ColumnType {
  enum class Kind : std::uint8_t {
    kBoolean, kInt8, kInt16, kInt32, kInt64, kFloat, kDouble, kDecimal, kString, kBinary, kDate, kTimestamp,
    kTimestampNtz,
  };

  Kind kind = Kind::kInt64;
  unsigned precision = 0;
  unsigned scale = 0;
  bool required = false;
  bool padded = false;              // CHAR: shorter texts get blanks.
  static constexpr Word kAnyLength = -1;
  Word length = kAnyLength;         // VARCHAR and CHAR: so many characters.

  static ColumnType of(const std::vector<Word>& code) {
    if (code.size() != 6 || code[0] < 0 || code[0] > static_cast<Word>(Kind::kTimestampNtz)) {
      throw std::invalid_argument("bad type");
    }
    if (code[1] < 0 || code[1] > kMostDigits || code[2] < 0 || code[2] > kMostDigits) {
      throw std::invalid_argument("bad digits");
    }
    if (code[4] < kAnyLength || code[4] > std::numeric_limits<std::int32_t>::max()) throw std::invalid_argument("bad length");
    ColumnType made;
    made.kind = static_cast<Kind>(code[0]);
    made.precision = static_cast<unsigned>(code[1]);
    made.scale = static_cast<unsigned>(code[2]);
    made.required = code[3] != 0;
    made.length = code[4];
    made.padded = code[5] != 0;
    return made;
  }

  bool is_wide() const noexcept {
    return kind == Kind::kString || kind == Kind::kBinary || (kind == Kind::kDecimal && precision > kNarrowDigits);
  }
  ValueKind value_kind() const noexcept {
    return kind == Kind::kString ? ValueKind{0} : kind == Kind::kBinary ? ValueKind{1} : kNumbers;
  }
  bool is_floating() const noexcept { return kind == Kind::kDouble || kind == Kind::kFloat; }
  bool is_instant() const noexcept { return kind == Kind::kTimestamp || kind == Kind::kTimestampNtz; }

  // Whether a number is one of the type's words, but for NULL's.
  bool holds(Exact number) const noexcept {
    switch (kind) {
      case Kind::kBoolean:
        return number == 0 || number == 1;
      case Kind::kInt8:
        return number >= -128 && number <= 127;
      case Kind::kInt16:
        return number >= -32768 && number <= 32767;
      case Kind::kInt32:
        return number >= std::numeric_limits<std::int32_t>::min() && number <= std::numeric_limits<std::int32_t>::max();
      case Kind::kInt64:
        return fits_word(number) && number != ValueTable::kNull;
      case Kind::kDecimal:
        return magnitude_of(number) < static_cast<Magnitude>(power_of_ten(precision));
      case Kind::kDate:
        return number >= -719162 && number <= 2932896;
      case Kind::kTimestamp:
      case Kind::kTimestampNtz:
        return number >= Exact{-719162} * kDay && number < Exact{2932897} * kDay;
      default:
        return true;
    }
  }

  static constexpr unsigned kNarrowDigits = 18;
  static constexpr Word kDay = Word{86'400'000'000};
};

// A double as a word: one zero, one NaN.
inline Word word_of_double(double number) noexcept {
  if (number != number) number = std::numeric_limits<double>::quiet_NaN();
  number += 0.0;
  Word word = 0;
  std::memcpy(&word, &number, sizeof word);
  return word;
}

inline double double_of_word(Word word) noexcept {
  double number = 0;
  std::memcpy(&number, &word, sizeof number);
  return number;
}

}  // namespace everview

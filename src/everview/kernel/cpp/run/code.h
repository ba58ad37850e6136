// Flat code: what a procedure's blocks become before they run. Lines of 32 bytes one after the other, operands inside.
#pragma once

#include <cstdint>
#include <vector>

#include "../store/words.h"

namespace everview {

// What the interpreter does, one line after the other; the contract of each stands at its case in machine.h.
enum class Code : std::uint8_t {
  kAdd, kBefore, kCount, kCountAll, kCountOwn, kDifference, kDivide, kCall, kEach, kEmit, kFind, kFloat, kGetLevel, kIfAtMost, kIfEqual,
  kIfLess, kIfNotEqual, kInsert, kJump, kNest, kNextAll, kNextEach, kNextScan, kProduct, kRank, kRemainder, kRemove, kReturn,
  kRoot, kScan, kScanAll, kSelect, kSetLevel, kSilence, kSize, kSpeak, kStore, kSum, kWideAdd, kWideIf, kWideMath,
};

// An operand, in place.
struct Slot {
  enum class Source : std::uint8_t {
    kRegister,  // The word in `reg`.
    kLiteral,   // `literal`.
    kWide,      // The literal that is number `number` of those beyond 32 bits.
    kField,     // Word `field.column` of the row in `reg`, which is one of table `field.table`.
    kUpdate,    // The position of the update.
    kFactors,   // Of an output: the checked product of the next `number` slots.
    kWideFactors,  // The same of `reg` words, of factors each of which begins with a kFactors that says how many words it has.
    kTargets,   // Of an addition: no word, but where to go on.
  };

  Source source = Source::kLiteral;
  std::uint16_t reg = 0;
  union {
    std::int32_t literal = 0;
    std::uint32_t number;
    struct {
      std::uint16_t column;
      std::uint16_t table;
    } field;
  };
};
static_assert(sizeof(Slot) == 8);

// An instruction with its first two operands. What it has beyond fills lines that follow it, four slots each: so that all
// of them stand side by side, from `slots` on.
struct alignas(32) Line {
  Code code = Code::kReturn;
  std::uint8_t detail = 0;   // A level, a range of levels, or how rows vanish.
  std::uint16_t reg = 0;     // The target, or the row.
  std::uint16_t other = 0;   // A value column, an index, an ordered index, a second register.
  std::uint16_t count = 0;   // How many slots there are.
  std::uint32_t table = 0;   // Its number; of a call, how many registers the caller has.
  std::uint32_t jump = 0;    // The line to go on with; or the number of a channel, nest or procedure, or a width.
  Slot slots[2];

  const Line* next() const noexcept { return this + lines(count); }
  static std::size_t lines(std::size_t slots) noexcept { return 1 + (slots + 1) / 4; }
};
static_assert(sizeof(Line) == 32);

inline constexpr std::uint8_t kOwnGroup = 0x80;  // In the detail of a loop, beside its levels: the group of the row in the key's register.
inline constexpr std::uint8_t kFoundAhead = 1;   // In the detail of a Find with which a scan's body begins: its key is known for all rows.
enum : std::uint8_t { kStays, kGoesAtOnce, kGoesAfter };  // The detail of an addition.

}  // namespace everview

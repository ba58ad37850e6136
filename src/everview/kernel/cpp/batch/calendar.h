// Parts of days and instants, and where the spans begin that they are in (Gregorian, in UTC).
#pragma once

#include "types.h"

namespace everview {

inline constexpr Word kSecond = 1'000'000, kMinute = 60 * kSecond, kHour = 60 * kMinute;
inline constexpr Exact kFirstInstant = Exact{-719162} * ColumnType::kDay, kLastInstant = Exact{2932897} * ColumnType::kDay - 1;

struct CivilDay {
  Word year = 0, month = 0, day = 0;
};

// The civil day of a number of days since 1970, by the days of eras of 400 years that begin in March.
inline CivilDay civil_day(Word days) noexcept {
  days += 719468;
  const Word era = (days >= 0 ? days : days - 146096) / 146097, of_era = days - era * 146097;
  const Word year = (of_era - of_era / 1460 + of_era / 36524 - of_era / 146096) / 365;
  const Word of_year = of_era - (365 * year + year / 4 - year / 100), month = (5 * of_year + 2) / 153;
  const Word civil_month = month < 10 ? month + 3 : month - 9;
  return {year + era * 400 + (civil_month <= 2 ? 1 : 0), civil_month, of_year - (153 * month + 2) / 5 + 1};
}

// Days since 1970 of the first day of a month.
inline Word day_of(Word year, Word month) noexcept {
  if (month <= 2) --year;
  const Word era = (year >= 0 ? year : year - 399) / 400, of_era = year - era * 400;
  const Word of_year = (153 * (month > 2 ? month - 3 : month + 9) + 2) / 5;
  return era * 146097 + of_era * 365 + of_era / 4 - of_era / 100 + of_year - 719468;
}

inline Word floored(Word number, Word by) noexcept { return number / by - (number % by < 0 ? 1 : 0); }

// In the order of `_PARTS` in `everview/engine/direct/expressions.py`: parts of a day, parts of an instant, days where
// a span begins, and instants where one does.
enum class Part : std::uint32_t {
  kYear, kQuarter, kMonth, kDay, kHour, kMinute, kDate, kFromYear, kFromQuarter, kFromMonth, kFromWeek, kFromDay,
  kFromHour, kFromMinute, kFromSecond,
};
inline constexpr std::size_t kParts = static_cast<std::size_t>(Part::kFromSecond) + 1;

// A part of a day; kHour and what follows kFromWeek: of an instant.
inline Word part_of_time(std::uint32_t number, Word time) noexcept {
  const auto since = [&](Word unit) { return floored(time, unit) * unit; };
  switch (static_cast<Part>(number)) {
    case Part::kYear:
      return civil_day(time).year;
    case Part::kQuarter:
      return (civil_day(time).month + 2) / 3;
    case Part::kMonth:
      return civil_day(time).month;
    case Part::kDay:
      return civil_day(time).day;
    case Part::kHour:
      return (time - since(ColumnType::kDay)) / kHour;
    case Part::kMinute:
      return (time - since(kHour)) / kMinute;
    case Part::kDate:
      return floored(time, ColumnType::kDay);
    case Part::kFromYear:
      return day_of(civil_day(time).year, 1);
    case Part::kFromQuarter:
      return day_of(civil_day(time).year, (civil_day(time).month - 1) / 3 * 3 + 1);
    case Part::kFromMonth:
      return day_of(civil_day(time).year, civil_day(time).month);
    case Part::kFromWeek:  // Weeks begin on Mondays; the first day of 1970 was a Thursday.
      return floored(time + 3, 7) * 7 - 3;
    case Part::kFromDay:
      return time * ColumnType::kDay;
    case Part::kFromHour:
      return since(kHour);
    case Part::kFromMinute:
      return since(kMinute);
    case Part::kFromSecond:
      return since(kSecond);
  }
  return 0;
}

}  // namespace everview

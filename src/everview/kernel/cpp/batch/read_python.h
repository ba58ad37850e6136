// Python's tuples and lists as rows of words. What is not plainly right is left to who can say what is wrong with it.
#pragma once

#include <nanobind/nanobind.h>
// After Python's own header:
#include <datetime.h>

#include "rows.h"

namespace everview {

namespace nb = nanobind;

// A decimal's digits as a number of so many behind the point; false if it is none of 38 digits at most.
inline bool parse_decimal(const char* text, std::size_t length, unsigned scale, Exact& number) noexcept {
  std::size_t i = 0;
  const bool negative = length != 0 && text[0] == '-';
  if (negative) ++i;
  Exact value = 0;
  unsigned digits = 0, behind = 0;
  bool point = false, any = false;
  for (; i < length; ++i) {
    if (text[i] == '.' && !point) {
      point = true;
      continue;
    }
    if (text[i] < '0' || text[i] > '9') return false;  // "1E+3", "NaN"
    any = true;
    if (point && behind == scale) {
      if (text[i] != '0') return false;
      continue;
    }
    if (digits != 0 || text[i] != '0') ++digits;
    if (digits > kMostDigits) return false;
    value = value * 10 + (text[i] - '0');
    if (point) ++behind;
  }
  if (!any) return false;
  for (; behind < scale; ++behind) {
    if (value != 0 && ++digits > kMostDigits) return false;
    value *= 10;
  }
  number = negative ? -value : value;
  return true;
}

class PythonReader {
 public:
  // The type of decimals: `decimal.Decimal`.
  PythonReader(std::vector<ColumnType> types, nb::object decimal) : types_(std::move(types)), decimal_(std::move(decimal)) {
    PyDateTime_IMPORT;
    if (PyDateTimeAPI == nullptr) throw nb::python_error();
  }

  // The rows; none if one of them is not a tuple or list of values that plainly are of the types.
  std::unique_ptr<ReadRows> read(nb::handle rows) const {
    if (PyList_CheckExact(rows.ptr()) == 0) return nullptr;
    const auto count = static_cast<std::size_t>(PyList_GET_SIZE(rows.ptr()));
    auto made = std::make_unique<ReadRows>(types_, count);
    for (std::size_t i = 0; i < count; ++i) {
      if (static_cast<std::size_t>(PyList_GET_SIZE(rows.ptr())) != count) return nullptr;
      PyObject* const row = PyList_GET_ITEM(rows.ptr(), static_cast<Py_ssize_t>(i));
      const bool is_tuple = PyTuple_CheckExact(row) != 0;
      if (!is_tuple && PyList_CheckExact(row) == 0) return nullptr;
      const nb::object kept = nb::borrow(row);
      for (std::size_t c = 0; c < types_.size(); ++c) {
        const Py_ssize_t width = is_tuple ? PyTuple_GET_SIZE(row) : PyList_GET_SIZE(row);
        if (static_cast<std::size_t>(width) != types_.size()) return nullptr;
        const auto at = static_cast<Py_ssize_t>(c);
        const nb::object value = nb::borrow(is_tuple ? PyTuple_GET_ITEM(row, at) : PyList_GET_ITEM(row, at));
        if (!put(value.ptr(), i, made->columns()[c])) {
          PyErr_Clear();
          return nullptr;
        }
      }
    }
    return made;
  }

 private:
  bool put(PyObject* value, std::size_t row, ReadColumn& column) const {
    using Kind = ColumnType::Kind;
    const ColumnType& type = column.type;
    if (value == Py_None) {
      if (type.required) return false;
      column.has_nulls = true;
      if (column.waiting != nullptr) {
        column.waiting->add_null();
      } else {
        column.words.words.get()[row] = ValueTable::kNull;
      }
      return true;
    }
    switch (type.kind) {
      case Kind::kString: {
        Py_ssize_t length = 0;
        if (PyUnicode_CheckExact(value) == 0) return false;
        const char* const text = PyUnicode_AsUTF8AndSize(value, &length);
        if (text == nullptr) return false;
        column.waiting->add(text, static_cast<std::size_t>(length));
        return true;
      }
      case Kind::kBinary:
        if (PyBytes_CheckExact(value) == 0) return false;
        column.waiting->add(PyBytes_AS_STRING(value), static_cast<std::size_t>(PyBytes_GET_SIZE(value)));
        return true;
      case Kind::kFloat:
      case Kind::kDouble: {
        if (PyFloat_CheckExact(value) == 0) return false;
        double number = PyFloat_AS_DOUBLE(value);
        if (type.kind == Kind::kFloat) {
          const bool finite = number - number == 0.0;
          number = static_cast<double>(static_cast<float>(number));
          if (finite && number - number != 0.0) return false;
        }
        column.words.words.get()[row] = word_of_double(number);
        return true;
      }
      default: {
        Exact number = 0;
        if (!exact(value, type, number) || !type.holds(number)) return false;
        if (column.waiting == nullptr) {
          column.words.words.get()[row] = low_word(number);
        } else {
          const StoredDecimal stored = to_stored(number, type.scale);
          column.waiting->add(reinterpret_cast<const char*>(stored.data()), sizeof stored);
        }
        return true;
      }
    }
  }

  bool exact(PyObject* value, const ColumnType& type, Exact& number) const {
    using Kind = ColumnType::Kind;
    switch (type.kind) {
      case Kind::kBoolean:
        if (PyBool_Check(value) == 0) return false;
        number = value == Py_True ? 1 : 0;
        return true;
      case Kind::kDate:
        if (PyDate_CheckExact(value) == 0) return false;
        number = day_of(value);
        return true;
      case Kind::kTimestamp:
      case Kind::kTimestampNtz: {
        if (PyDateTime_CheckExact(value) == 0) return false;
        const auto* const moment = reinterpret_cast<const PyDateTime_DateTime*>(value);
        const bool zoned = moment->hastzinfo != 0;
        if (zoned && (type.kind == Kind::kTimestampNtz || moment->tzinfo != PyDateTime_TimeZone_UTC)) return false;
        const Word seconds = 3600 * Word{PyDateTime_DATE_GET_HOUR(value)} + 60 * PyDateTime_DATE_GET_MINUTE(value) +
                             PyDateTime_DATE_GET_SECOND(value);
        number = Exact{day_of(value)} * ColumnType::kDay + seconds * 1'000'000 + PyDateTime_DATE_GET_MICROSECOND(value);
        return true;
      }
      case Kind::kDecimal: {
        if (PyLong_CheckExact(value) != 0) {
          return whole(value, number) && !__builtin_mul_overflow(number, power_of_ten(type.scale), &number);
        }
        if (reinterpret_cast<PyObject*>(Py_TYPE(value)) != decimal_.ptr()) return false;
        const nb::object text = nb::steal(PyObject_Str(value));
        Py_ssize_t length = 0;
        const char* const digits = text.ptr() == nullptr ? nullptr : PyUnicode_AsUTF8AndSize(text.ptr(), &length);
        return digits != nullptr && parse_decimal(digits, static_cast<std::size_t>(length), type.scale, number);
      }
      default:
        return PyLong_CheckExact(value) != 0 && whole(value, number);
    }
  }

  static bool whole(PyObject* value, Exact& number) {
    int overflow = 0;
    const long long found = PyLong_AsLongLongAndOverflow(value, &overflow);
    number = found;
    return overflow == 0 && !(found == -1 && PyErr_Occurred() != nullptr);
  }

  // Days since 1970, by the civil calendar.
  static Word day_of(PyObject* value) noexcept {
    const Word month = PyDateTime_GET_MONTH(value), day = PyDateTime_GET_DAY(value);
    const Word year = PyDateTime_GET_YEAR(value) - (month <= 2 ? 1 : 0);
    const Word era = year / 400, of_era = year % 400;
    const Word of_year = (153 * (month + (month > 2 ? -3 : 9)) + 2) / 5 + day - 1;
    return era * 146097 + of_era * 365 + of_era / 4 - of_era / 100 + of_year - 719468;
  }

  std::vector<ColumnType> types_;
  nb::object decimal_;
};

}  // namespace everview

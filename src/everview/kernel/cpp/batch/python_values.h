// Python's values as those of a column. What is not plainly right is left to who can say what is wrong with it.
#pragma once

#include <nanobind/nanobind.h>
// After Python's own header:
#include <datetime.h>

#include "rows.h"

namespace everview {

namespace nb = nanobind;

// A decimal's digits as a number of so many behind the point; false if it is none of 38 digits at most.
inline bool parse_decimal(std::string_view text, unsigned scale, Exact& number) noexcept {
  std::size_t i = 0;
  const bool negative = !text.empty() && text[0] == '-';
  if (negative) ++i;
  Exact value = 0;
  long behind = 0;  // Digits behind the point so far.
  bool point = false, any = false;
  for (; i < text.size() && text[i] != 'E'; ++i) {
    if (text[i] == '.' && !point) {
      point = true;
      continue;
    }
    if (text[i] < '0' || text[i] > '9') return false;  // "NaN"
    any = true;
    if (__builtin_mul_overflow(value, Exact{10}, &value) || __builtin_add_overflow(value, Exact{text[i] - '0'}, &value)) {
      return false;
    }
    if (point) ++behind;
  }
  if (!any) return false;
  if (i < text.size()) {
    const bool down = ++i < text.size() && text[i] == '-';
    if (i < text.size() && (text[i] == '-' || text[i] == '+')) ++i;
    long exponent = 0;
    if (i == text.size() || text.size() - i > 6) return false;
    for (; i < text.size(); ++i) {
      if (text[i] < '0' || text[i] > '9') return false;
      exponent = exponent * 10 + (text[i] - '0');
    }
    behind += down ? exponent : -exponent;
  }
  for (; behind < static_cast<long>(scale); ++behind) {
    if (value == 0) break;
    if (__builtin_mul_overflow(value, Exact{10}, &value)) return false;
  }
  for (; behind > static_cast<long>(scale); --behind) {
    if (value == 0) break;
    if (value % 10 != 0) return false;
    value /= 10;
  }
  number = negative ? -value : value;
  return magnitude_of(number) < static_cast<Magnitude>(power_of_ten(kMostDigits));
}

class PythonValues {
 public:
  // The type of decimals, `decimal.Decimal`, and what makes a plain value of one whose type is a relative of Python's
  // own: given the value and its column's number, or NotImplemented.
  PythonValues(nb::object decimal, nb::object plain) : decimal_(std::move(decimal)), plain_(std::move(plain)) {
    PyDateTime_IMPORT;
    if (PyDateTimeAPI == nullptr) throw nb::python_error();
  }

  // False, perhaps with an error set, if it is not plainly a value of the column.
  bool put(PyObject* value, std::size_t row, std::size_t number, ReadColumn& column) const {
    if (value == Py_None) return column.put_null(row);
    if (put_plain(value, row, column)) return true;
    if (is_own(value)) return false;
    PyErr_Clear();
    const nb::object made = nb::steal(PyObject_CallFunction(plain_.ptr(), "On", value, static_cast<Py_ssize_t>(number)));
    if (!made.is_valid() || made.ptr() == Py_NotImplemented || made.ptr() == Py_None) return false;
    return put_plain(made.ptr(), row, column);
  }

 private:
  // Whether a value is of one of Python's own types, and no relative.
  bool is_own(PyObject* value) const {
    return PyLong_CheckExact(value) != 0 || PyFloat_CheckExact(value) != 0 || PyUnicode_CheckExact(value) != 0 ||
           PyBool_Check(value) != 0 || PyBytes_CheckExact(value) != 0 || PyDate_CheckExact(value) != 0 ||
           PyDateTime_CheckExact(value) != 0 || is_decimal(value);
  }

  bool is_decimal(PyObject* value) const { return reinterpret_cast<PyObject*>(Py_TYPE(value)) == decimal_.ptr(); }

  static bool is_of_numpy(PyObject* value, const char* name) {
    const char* const type = Py_TYPE(value)->tp_name;
    return std::strncmp(type, "numpy.", 6) == 0 && std::strncmp(type + 6, name, std::strlen(name)) == 0;
  }

  bool put_plain(PyObject* value, std::size_t row, ReadColumn& column) const {
    using Kind = ColumnType::Kind;
    switch (column.type.kind) {
      case Kind::kString: {
        Py_ssize_t length = 0;
        if (PyUnicode_CheckExact(value) == 0) return false;
        const char* const text = PyUnicode_AsUTF8AndSize(value, &length);
        return text != nullptr && column.put_text(text, static_cast<std::size_t>(length));
      }
      case Kind::kBinary:
        if (PyBytes_CheckExact(value) == 0) return false;
        return column.put_text(PyBytes_AS_STRING(value), static_cast<std::size_t>(PyBytes_GET_SIZE(value)));
      case Kind::kFloat:
      case Kind::kDouble: {
        if (PyFloat_CheckExact(value) != 0 || (PyFloat_Check(value) != 0 && is_of_numpy(value, "float64"))) {
          return column.put_double(row, PyFloat_AS_DOUBLE(value));
        }
        Exact number = 0;
        return whole(value, number) && magnitude_of(number) <= Magnitude{1} << 53 &&
               column.put_double(row, static_cast<double>(number));
      }
      default: {
        Exact number = 0;
        return exact(value, column.type, number) && column.put_number(row, number);
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
      case Kind::kTimestampNtz:
        return PyDateTime_CheckExact(value) != 0 && instant(value, type, number);
      case Kind::kDecimal:
        if (PyLong_CheckExact(value) != 0 && whole(value, number)) {
          return !__builtin_mul_overflow(number, power_of_ten(type.scale), &number);
        }
        PyErr_Clear();
        return (is_decimal(value) || PyLong_CheckExact(value) != 0) && written(value, type.scale, number);
      default:
        return whole(value, number);
    }
  }

  static bool written(PyObject* value, unsigned scale, Exact& number) {
    const nb::object text = nb::steal(PyObject_Str(value));
    Py_ssize_t length = 0;
    const char* const digits = text.is_valid() ? PyUnicode_AsUTF8AndSize(text.ptr(), &length) : nullptr;
    return digits != nullptr && parse_decimal({digits, static_cast<std::size_t>(length)}, scale, number);
  }

  // A timestamp's microseconds since 1970, in UTC.
  static bool instant(PyObject* value, const ColumnType& type, Exact& number) {
    const auto* const moment = reinterpret_cast<const PyDateTime_DateTime*>(value);
    const bool zoned = moment->hastzinfo != 0;
    if (zoned && type.kind == ColumnType::Kind::kTimestampNtz) return false;
    const Word seconds = 3600 * Word{PyDateTime_DATE_GET_HOUR(value)} + 60 * PyDateTime_DATE_GET_MINUTE(value) +
                         PyDateTime_DATE_GET_SECOND(value);
    number = Exact{day_of(value)} * ColumnType::kDay + seconds * 1'000'000 + PyDateTime_DATE_GET_MICROSECOND(value);
    if (!zoned || moment->tzinfo == PyDateTime_TimeZone_UTC) return true;
    const nb::object offset = nb::steal(PyObject_CallMethod(value, "utcoffset", nullptr));
    if (!offset.is_valid()) return false;
    if (offset.is_none()) return true;  // A time zone that does not say.
    if (PyDelta_Check(offset.ptr()) == 0) return false;
    number -= Exact{PyDateTime_DELTA_GET_DAYS(offset.ptr())} * ColumnType::kDay +
              Exact{PyDateTime_DELTA_GET_SECONDS(offset.ptr())} * 1'000'000 +
              PyDateTime_DELTA_GET_MICROSECONDS(offset.ptr());
    return true;
  }

  // An int, or an integer of NumPy's.
  static bool whole(PyObject* value, Exact& number) {
    int overflow = 0;
    if (PyLong_CheckExact(value) == 0) {
      if (!is_of_numpy(value, "int") && !is_of_numpy(value, "uint")) return false;
      const nb::object index = nb::steal(PyNumber_Index(value));
      return index.is_valid() && PyLong_CheckExact(index.ptr()) != 0 && whole(index.ptr(), number);
    }
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

  nb::object decimal_;
  nb::object plain_;
};

}  // namespace everview

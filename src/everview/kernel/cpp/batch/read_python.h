// Python's rows as rows of words, in one pass: tuples and lists by position, dicts by name.
#pragma once

#include <optional>

#include "python_values.h"

namespace everview {

class PythonReader {
 public:
  // By which name, in lower case, a dict gives which column: those of the table come first, then the change type and the
  // number of copies; below 0 for what is skipped.
  PythonReader(RowTypes types, nb::dict names, nb::object decimal, nb::object plain)
      : types_(std::move(types)), values_(std::move(decimal), std::move(plain)), names_(std::move(names)) {}

  // The rows, which say what happened to each if they are `changes`; none if one of them is not plainly right.
  std::unique_ptr<ReadRows> read(nb::handle rows, bool changes) const {
    if (PyList_CheckExact(rows.ptr()) == 0) return nullptr;
    const auto count = static_cast<std::size_t>(PyList_GET_SIZE(rows.ptr()));
    Reading reading{types_.rows(count), {}, changes};
    if (changes) reading.made->weights = pooled_column(count);
    bool by_name = false;
    for (std::size_t i = 0; i < count; ++i) {
      if (static_cast<std::size_t>(PyList_GET_SIZE(rows.ptr())) != count) return nullptr;
      const nb::object row = nb::borrow(PyList_GET_ITEM(rows.ptr(), static_cast<Py_ssize_t>(i)));
      const bool is_dict = PyDict_CheckExact(row.ptr()) != 0;
      if (i == 0) by_name = is_dict;
      if (is_dict != by_name || !(is_dict ? by_names(row.ptr(), i, reading) : by_places(row.ptr(), i, reading))) {
        PyErr_Clear();
        return nullptr;
      }
    }
    return std::move(reading.made);
  }

 private:
  // The keys that a dict had, in their order, with their columns.
  struct Layout {
    std::vector<nb::object> keys;
    std::vector<long> columns;
    std::vector<std::size_t> absent;
  };
  struct Reading {
    std::unique_ptr<ReadRows> made;
    std::vector<Layout> layouts;
    bool changes;
  };

  std::size_t width() const noexcept { return types_.types.size(); }

  bool by_places(PyObject* row, std::size_t at, Reading& reading) const {
    const bool is_tuple = PyTuple_Check(row) != 0;  // Named ones, and Spark's rows, too.
    if (!is_tuple && PyList_CheckExact(row) == 0) return false;
    const std::size_t wanted = width() + (reading.changes ? 1 : 0);
    for (std::size_t c = 0; c < wanted; ++c) {
      const Py_ssize_t given = is_tuple ? PyTuple_GET_SIZE(row) : PyList_GET_SIZE(row);
      if (static_cast<std::size_t>(given) != wanted) return false;
      const auto i = static_cast<Py_ssize_t>(c);
      const nb::object value = nb::borrow(is_tuple ? PyTuple_GET_ITEM(row, i) : PyList_GET_ITEM(row, i));
      if (c == width() ? !put_sign(value.ptr(), at, *reading.made)
                       : !values_.put(value.ptr(), at, c, reading.made->columns()[c])) {
        return false;
      }
    }
    return wanted != 0 || PyObject_Size(row) == 0;
  }

  bool by_names(PyObject* row, std::size_t at, Reading& reading) const {
    for (std::size_t i = reading.layouts.size(); i-- > 0;) {
      if (const auto done = put_as(reading.layouts[i], row, at, reading)) return *done;
    }
    auto layout = layout_of(row, reading.changes);
    if (!layout) return false;
    reading.layouts.push_back(std::move(*layout));
    return put_as(reading.layouts.back(), row, at, reading).value_or(false);
  }

  // Nothing if the dict has other keys.
  std::optional<bool> put_as(const Layout& layout, PyObject* row, std::size_t at, Reading& reading) const {
    if (static_cast<std::size_t>(PyDict_GET_SIZE(row)) != layout.keys.size()) return std::nullopt;
    PyObject *key = nullptr, *value = nullptr;
    Py_ssize_t position = 0;
    for (std::size_t i = 0; PyDict_Next(row, &position, &key, nullptr) != 0; ++i) {
      if (i >= layout.keys.size() || !same(key, layout.keys[i].ptr())) return std::nullopt;
    }
    position = 0;
    std::optional<nb::object> kind, copies;
    for (std::size_t i = 0; PyDict_Next(row, &position, &key, &value) != 0; ++i) {
      if (i >= layout.keys.size()) return false;  // It has changed meanwhile.
      const long column = layout.columns[i];
      if (column < 0) continue;
      const nb::object held = nb::borrow(value);
      const auto c = static_cast<std::size_t>(column);
      if (c == width()) {
        kind = held;
      } else if (c > width()) {
        copies = held;
      } else if (!values_.put(value, at, c, reading.made->columns()[c])) {
        return false;
      }
    }
    for (const std::size_t c : layout.absent) {
      if (!reading.made->columns()[c].put_null(at)) return false;
    }
    if (!reading.changes) return true;
    if (!kind || !put_sign(kind->ptr(), at, *reading.made)) return false;
    return !copies || put_copies(copies->ptr(), at, *reading.made);
  }

  static bool same(PyObject* key, PyObject* known) {
    return key == known || (PyUnicode_CheckExact(key) != 0 && PyUnicode_Compare(key, known) == 0);
  }

  std::optional<Layout> layout_of(PyObject* row, bool changes) const {
    Layout made;
    std::vector<bool> given(width() + 2);
    PyObject *key = nullptr, *value = nullptr;
    Py_ssize_t position = 0;
    const nb::object copy = nb::steal(PyDict_Copy(row));
    if (!copy.is_valid()) return std::nullopt;
    while (PyDict_Next(copy.ptr(), &position, &key, &value) != 0) {
      if (PyUnicode_CheckExact(key) == 0) return std::nullopt;
      const nb::object name = nb::steal(PyObject_CallMethod(key, "lower", nullptr));
      PyObject* const found = name.is_valid() ? PyDict_GetItemWithError(names_.ptr(), name.ptr()) : nullptr;
      if (found == nullptr) return std::nullopt;
      const long column = PyLong_AsLong(found);
      if (column >= static_cast<long>(given.size())) return std::nullopt;
      if ((column < 0 || static_cast<std::size_t>(column) >= width()) && !changes) return std::nullopt;
      if (column >= 0) {
        if (given[static_cast<std::size_t>(column)]) return std::nullopt;
        given[static_cast<std::size_t>(column)] = true;
      }
      made.keys.push_back(nb::borrow(key));
      made.columns.push_back(column);
    }
    for (std::size_t c = 0; c < width(); ++c) {
      if (!given[c]) made.absent.push_back(c);
    }
    return made;
  }

  static bool put_sign(PyObject* value, std::size_t row, ReadRows& made) {
    Py_ssize_t length = 0;
    if (PyUnicode_CheckExact(value) == 0) return false;
    const char* const text = PyUnicode_AsUTF8AndSize(value, &length);
    if (text == nullptr) return false;
    made.weights.words.get()[row] = sign_of({text, static_cast<std::size_t>(length)});
    return made.weights.words.get()[row] != 0;
  }

  static bool put_copies(PyObject* value, std::size_t row, ReadRows& made) {
    if (PyLong_CheckExact(value) == 0) return false;
    int overflow = 0;
    const long long copies = PyLong_AsLongLongAndOverflow(value, &overflow);
    if (overflow != 0 || copies < 1) return false;
    made.weights.words.get()[row] *= copies;
    return true;
  }

  RowTypes types_;
  PythonValues values_;
  nb::dict names_;
};

}  // namespace everview

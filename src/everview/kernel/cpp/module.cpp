// The kernel as Python sees it: `everview.kernel._kernel`.
//
// Arguments are read into C++ before a table is touched, and results copied out of it before any Python object is made:
// either may run Python code (an `__index__`, a finaliser), which may use the same table.
#include <nanobind/nanobind.h>
#include <nanobind/stl/string.h>

#include <memory>

#include "table.h"

namespace nb = nanobind;
using namespace nb::literals;

namespace everview {
namespace {

[[noreturn]] void raise(PyObject* type, const std::string& message) {
  PyErr_SetString(type, message.c_str());
  throw nb::python_error();
}

// One int (or what has an `__index__`, as NumPy's integers do) as a word; `what` names it in errors.
Word read_word(nb::handle value, const std::string& what) {
  if (!PyIndex_Check(value.ptr())) {
    raise(PyExc_TypeError, what + " must be an int, not " + Py_TYPE(value.ptr())->tp_name);
  }
  const nb::object integer = nb::steal(PyNumber_Index(value.ptr()));
  if (!integer.is_valid()) throw nb::python_error();
  int overflow = 0;
  const long long word = PyLong_AsLongLongAndOverflow(integer.ptr(), &overflow);
  if (overflow != 0) raise(PyExc_OverflowError, what + " does not fit in 64 bits (-2^63 to 2^63 - 1)");
  return word;
}

// As it is if it is a tuple (which nobody can change meanwhile), else a copy.
nb::tuple read_sequence(nb::handle values, const char* what) {
  if (PyTuple_CheckExact(values.ptr())) return nb::borrow<nb::tuple>(values);
  if (!PySequence_Check(values.ptr())) {
    raise(PyExc_TypeError, std::string(what) + " must be a sequence of ints, not " + Py_TYPE(values.ptr())->tp_name);
  }
  nb::object copy = nb::steal(PySequence_Tuple(values.ptr()));
  if (!copy.is_valid()) throw nb::python_error();
  return nb::borrow<nb::tuple>(copy);
}

// The words of a row or key given as a Python sequence.
class Words {
 public:
  Words(nb::handle values, std::size_t width, const char* what) {
    const nb::tuple items = read_sequence(values, what);
    if (items.size() != width) {
      raise(PyExc_ValueError, "this " + std::string(what) + " must have " + std::to_string(width) +
                                  (width == 1 ? " word" : " words") + ", not " + std::to_string(items.size()));
    }
    if (width > std::size(few_)) many_ = std::make_unique<Word[]>(width);
    Word* const words = many_ ? many_.get() : few_;
    for (std::size_t i = 0; i < width; ++i) {
      const nb::handle item = PyTuple_GET_ITEM(items.ptr(), static_cast<Py_ssize_t>(i));
      int overflow = 1;
      if (PyLong_CheckExact(item.ptr())) words[i] = PyLong_AsLongLongAndOverflow(item.ptr(), &overflow);
      if (overflow != 0) words[i] = read_word(item, std::string(what) + "[" + std::to_string(i) + "]");
    }
  }

  const Word* data() const noexcept { return many_ ? many_.get() : few_; }

 private:
  Word few_[16];
  std::unique_ptr<Word[]> many_;
};

std::size_t read_width(nb::handle value) {
  const Word width = read_word(value, "width");
  if (width < 0) raise(PyExc_ValueError, "width must not be negative");
  return static_cast<std::size_t>(width);
}

std::size_t read_index(const Table& table, nb::handle value) {
  const Word index = read_word(value, "index");
  if (index < 0 || static_cast<std::size_t>(index) >= table.index_count()) {
    raise(PyExc_IndexError,
          "no index " + std::to_string(index) + ": this table has " + std::to_string(table.index_count()));
  }
  return static_cast<std::size_t>(index);
}

// Rows and multiplicities taken out of a table, on their way to Python.
class Snapshot {
 public:
  explicit Snapshot(std::size_t width) : width_(width) {}

  void reserve(std::size_t rows) {
    words_.reserve(rows * width_);
    counts_.reserve(rows);
  }

  void add(const Table& table, Row row) {
    words_.insert(words_.end(), table.words(row), table.words(row) + width_);
    counts_.push_back(table.count(row));
  }

  // [(row, multiplicity), …]
  nb::list to_python() const {
    nb::list list;
    const Word* word = words_.data();
    for (const std::int64_t count : counts_) {
      nb::object row = new_tuple(width_);
      for (std::size_t i = 0; i < width_; ++i) set(row, i, PyLong_FromLongLong(*word++));
      nb::object pair = new_tuple(2);
      set(pair, 0, row.release().ptr());
      set(pair, 1, PyLong_FromLongLong(count));
      list.append(pair);
    }
    return list;
  }

 private:
  static nb::object new_tuple(std::size_t size) { return checked(PyTuple_New(static_cast<Py_ssize_t>(size))); }

  static void set(const nb::object& tuple, std::size_t at, PyObject* item) {
    PyTuple_SET_ITEM(tuple.ptr(), static_cast<Py_ssize_t>(at), checked(item).release().ptr());
  }

  static nb::object checked(PyObject* object) {
    if (object == nullptr) throw nb::python_error();
    return nb::steal(object);
  }

  std::size_t width_;
  std::vector<Word> words_;
  std::vector<std::int64_t> counts_;
};

std::int64_t add(Table& table, nb::handle row, nb::handle count) {
  const Words words(row, table.width(), "row");
  const std::int64_t change = read_word(count, "count");
  return table.add(words.data(), change);
}

std::int64_t get(const Table& table, nb::handle row) {
  const Words words(row, table.width(), "row");
  const Row found = table.find(words.data());
  return found == kNoRow ? 0 : table.count(found);
}

nb::object total(const Table& table) {
  const Table::Total sum = table.total();
  const nb::int_ high(static_cast<std::uint64_t>(sum >> 64));
  return (high << nb::int_(64)) | nb::int_(static_cast<std::uint64_t>(sum));
}

nb::list rows(const Table& table) {
  Snapshot snapshot(table.width());
  snapshot.reserve(table.size());
  for (Row row = 0; row < table.size(); ++row) snapshot.add(table, row);
  return snapshot.to_python();
}

std::size_t add_index(Table& table, nb::handle columns) {
  const nb::tuple items = read_sequence(columns, "columns");
  std::vector<std::uint32_t> numbers;
  for (const nb::handle item : items) {
    const Word column = read_word(item, "a column's number");
    if (column < 0 || static_cast<std::size_t>(column) >= table.width()) {
      raise(PyExc_IndexError,
            "no column " + std::to_string(column) + ": this table's width is " + std::to_string(table.width()));
    }
    numbers.push_back(static_cast<std::uint32_t>(column));
  }
  return table.add_index(std::move(numbers));
}

nb::list group(const Table& table, nb::handle index, nb::handle key) {
  const std::size_t at = read_index(table, index);
  const Words words(key, table.index(at).columns().size(), "key");
  Snapshot snapshot(table.width());
  const std::span<const Row> found = table.group(at, words.data());
  snapshot.reserve(found.size());
  for (const Row row : found) snapshot.add(table, row);
  return snapshot.to_python();
}

std::size_t group_size(const Table& table, nb::handle index, nb::handle key) {
  const std::size_t at = read_index(table, index);
  const Words words(key, table.index(at).columns().size(), "key");
  return table.group(at, words.data()).size();
}

std::string describe(const Table& table) {
  return "<everview.kernel.Table: width " + std::to_string(table.width()) + ", distinct rows " +
         std::to_string(table.size()) + ", indexes " + std::to_string(table.index_count()) + ">";
}

}  // namespace
}  // namespace everview

NB_MODULE(_kernel, module) {
  using everview::Table;

  module.doc() = "Everview's compiled kernel; use it through everview.kernel.";
#ifdef NDEBUG
  nb::set_leak_warnings(false);  // A table alive when Python exits is no fault.
#endif

  nb::exception<everview::OverDelete>(module, "OverDelete", PyExc_ValueError).doc() =
      "More copies of a row were to be removed than are there. Nothing has changed.";

  nb::class_<Table>(module, "Table",
                    R"(A bag of rows, each a fixed number of 64-bit words, kept in flat arrays.

Every distinct row is held once, with its multiplicity. Adding, removing and finding a row take constant time, as
does finding a group of an index. A change either happens whole or raises and changes nothing. Rows and keys are
sequences of ints from -2**63 to 2**63 - 1. Memory is given back as rows go.)")
      .def(
          "__init__", [](Table* self, nb::handle width) { new (self) Table(everview::read_width(width)); }, "width"_a.none(),
          nb::sig("def __init__(self, width: int) -> None"), "An empty table of rows of `width` words.")
      .def_prop_ro("width", &Table::width, "The number of words in a row.")
      .def("add", &everview::add, "row"_a.none(), "count"_a.none() = 1,
           nb::sig("def add(self, row: Sequence[int], count: int = 1) -> int"),
           R"(Adds `count` copies of a row, or removes them if `count` is negative.

Returns how many copies there are then. Raises OverDelete if there would be fewer than none, and OverflowError if
there would be more than 2**63 - 1.)")
      .def("get", &everview::get, "row"_a.none(), nb::sig("def get(self, row: Sequence[int]) -> int"),
           "How many copies of a row there are.")
      .def("__len__", &Table::size, "The number of distinct rows.")
      .def("total", &everview::total, nb::sig("def total(self) -> int"), "The number of rows, copies included.")
      .def("rows", &everview::rows, nb::sig("def rows(self) -> list[tuple[tuple[int, ...], int]]"),
           "All rows as they are now, as (row, multiplicity) pairs in no particular order.")
      .def("add_index", &everview::add_index, "columns"_a.none(),
           nb::sig("def add_index(self, columns: Sequence[int]) -> int"),
           R"(Indexes the rows, present and future, by the values of some columns, and returns the index's number.

With no columns, all rows are one group. Asked again for the same columns, returns the same index.)")
      .def("group", &everview::group, "index"_a.none(), "key"_a.none(),
           nb::sig("def group(self, index: int, key: Sequence[int]) -> list[tuple[tuple[int, ...], int]]"),
           "The rows whose indexed columns equal `key`, as (row, multiplicity) pairs in no particular order.")
      .def("group_size", &everview::group_size, "index"_a.none(), "key"_a.none(),
           nb::sig("def group_size(self, index: int, key: Sequence[int]) -> int"),
           "The number of distinct rows in a group.")
      .def("clear", &Table::clear, "Removes all rows. The indexes stay.")
      .def("nbytes", &Table::nbytes, "The memory the table takes, in bytes.")
      .def("__repr__", &everview::describe);
}

// The kernel as Python sees it: `everview.kernel._kernel`, with numbers for names; `everview.kernel.machine` knows those.
//
// Arguments are read into C++ before a unit is touched, and results copied out of it before any Python object is made:
// either may run Python code. A machine with its units is used without the GIL, by one thread at a time.
#include <nanobind/nanobind.h>
#include <nanobind/stl/optional.h>
#include <nanobind/stl/pair.h>
#include <nanobind/stl/shared_ptr.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/tuple.h>
#include <nanobind/stl/unique_ptr.h>
#include <nanobind/stl/vector.h>

#include <atomic>
#include <numeric>

#include "arrow/arrow.h"
#include "cursor/cursor_tree.h"
#include "arrow/feed_columns.h"
#include "arrow/pairs.h"
#include "arrow/wide_columns.h"
#include "batch/batch_bindings.h"
#include "census/census_bindings.h"
#include "run/shared.h"
#include "run/snapshot.h"
#include "values/value_bindings.h"

namespace nb = nanobind;
using namespace nb::literals;

namespace everview {
namespace {

struct StaleCursor : std::runtime_error {
  using std::runtime_error::runtime_error;
};

class PythonCursor {
 public:
  PythonCursor(UnitHandle unit, std::size_t number, const std::vector<Word>& arguments)
      : unit_(std::move(unit)) {
    const CursorPlan& plan = unit_->program().cursors[number];
    width_ = columns_of(plan.outputs);
    unit_->use([&](Unit& used) { state_ = std::make_unique<CursorState>(used, plan, arguments.data()); });
  }

  std::vector<Column> fetch(std::size_t limit) {
    Channel rows(width_);
    run(&rows, limit);
    return rows.take();
  }

  std::size_t skip(std::size_t count) { return run(nullptr, count); }

  std::uint64_t steps() {
    return unit_->use([&](Unit&) { return state_->steps(); });
  }

 private:
  std::size_t run(Channel* out, std::size_t limit) {
    return unit_->use([&](Unit&) {
      if (state_->is_stale()) {
        throw StaleCursor("the state has changed since the cursor was opened: open it anew");
      }
      try {
        return state_->run(out, limit);
      } catch (const Fault& fault) {
        if (fault.kind == Fault::Kind::kOverflow) throw std::overflow_error(fault.message);
        throw std::runtime_error(fault.message);
      }
    });
  }

  UnitHandle unit_;
  std::size_t width_ = 0;
  std::unique_ptr<CursorState> state_;
};

void check(std::size_t number, std::size_t below, const char* what) {
  if (number >= below) raise(PyExc_IndexError, "there is no " + std::string(what) + " " + std::to_string(number));
}

// The columns of a batch, all of one length.
struct Batch {
  Batch(const Procedure& procedure, nb::sequence objects) {
    for (const nb::handle object : objects) columns.emplace_back(object, "column " + std::to_string(columns.size()));
    if (columns.size() != procedure.parameters) {
      raise(PyExc_ValueError, "the procedure takes " + std::to_string(procedure.parameters) + " columns, not " +
                                  std::to_string(columns.size()));
    }
    for (const InputColumn& column : columns) {
      words.push_back(column.words());
      if (column.size() != columns[0].size()) raise(PyExc_ValueError, "the columns' lengths differ");
    }
    rows = columns.empty() ? 0 : columns[0].size();
  }

  std::vector<InputColumn> columns;
  std::vector<const Word*> words;
  std::size_t rows = 0;
};

using Failure = std::optional<std::tuple<std::size_t, std::string, std::string>>;  // Update, kind, message.

Failure describe(const std::optional<Unit::Failure>& failure) {
  if (!failure) return std::nullopt;
  static constexpr const char* kKinds[] = {"overflow", "program", "memory"};
  return {{failure->update, kKinds[static_cast<std::size_t>(failure->fault.kind)], failure->fault.message}};
}

std::pair<std::size_t, Failure> apply_some(SharedUnit& unit, std::size_t procedure, const nb::sequence& columns,
                                           Word first_update, std::optional<std::size_t> most_pending) {
  check(procedure, unit.program().procedures.size(), "procedure");
  const Batch batch(unit.program().procedures[procedure], columns);
  const std::size_t most = most_pending.value_or(std::numeric_limits<std::size_t>::max());
  const auto outcome =
      unit.use([&](Unit& u) { return u.apply(procedure, batch.words, batch.rows, first_update, most); });
  return {outcome.done, describe(outcome.failure)};
}

Failure apply(SharedUnit& unit, std::size_t procedure, const nb::sequence& columns, Word first_update) {
  return apply_some(unit, procedure, columns, first_update, std::nullopt).second;
}

Failure unapply(SharedUnit& unit, std::size_t procedure, const nb::sequence& columns,
                const std::vector<std::size_t>& weights, std::size_t count) {
  check(procedure, unit.program().procedures.size(), "procedure");
  const Batch batch(unit.program().procedures[procedure], columns);
  for (const std::size_t weight : weights) check(weight, batch.words.size(), "parameter");
  if (count > batch.rows) raise(PyExc_ValueError, "there are only " + std::to_string(batch.rows) + " rows");
  return describe(unit.use([&](Unit& u) { return u.unapply(procedure, batch.words, count, weights); }));
}

// Runs a procedure that only reads, and takes what it has put into a channel; nothing, if it fails.
std::pair<std::vector<Column>, Failure> ask(SharedUnit& unit, std::size_t procedure, const nb::sequence& columns,
                                            std::size_t channel) {
  check(procedure, unit.program().procedures.size(), "procedure");
  check(channel, unit.program().channels.size(), "channel");
  const Batch batch(unit.program().procedures[procedure], columns);
  return unit.use([&](Unit& u) -> std::pair<std::vector<Column>, Failure> {
    const auto failure = u.ask(procedure, batch.words, batch.rows);
    if (failure) u.channel(channel).clear();
    return {failure ? std::vector<Column>() : u.channel(channel).take(), describe(failure)};
  });
}

std::vector<Column> take(SharedUnit& unit, std::size_t channel) {
  check(channel, unit.program().channels.size(), "channel");
  return unit.use([&](Unit& u) { return u.channel(channel).take(); });
}

void discard(SharedUnit& unit, std::size_t channel) {
  check(channel, unit.program().channels.size(), "channel");
  unit.use([&](Unit& u) { u.channel(channel).clear(); });
}

void clear(SharedUnit& unit, const std::vector<std::uint32_t>& tables, const std::vector<std::uint32_t>& channels) {
  for (const std::uint32_t table : tables) check(table, unit.program().tables.size(), "table");
  for (const std::uint32_t channel : channels) check(channel, unit.program().channels.size(), "channel");
  unit.use([&](Unit& u) { u.clear(tables, channels); });
}

std::size_t pending(SharedUnit& unit, std::size_t channel) {
  check(channel, unit.program().channels.size(), "channel");
  return unit.use([&](Unit& u) { return u.channel(channel).size(); });
}

std::unique_ptr<PythonCursor> open(const UnitHandle& unit, std::size_t cursor, const std::vector<Word>& arguments) {
  check(cursor, unit->program().cursors.size(), "cursor");
  const std::size_t wanted = unit->program().cursors[cursor].parameters;
  if (arguments.size() != wanted) {
    raise(PyExc_ValueError,
          "the cursor takes " + std::to_string(wanted) + " arguments, not " + std::to_string(arguments.size()));
  }
  return std::make_unique<PythonCursor>(unit, cursor, arguments);
}

nb::tuple to_tuple(const Word* words, std::size_t size) {
  nb::list list;
  for (std::size_t i = 0; i < size; ++i) list.append(nb::int_(words[i]));
  return nb::tuple(list);
}

nb::list dump(SharedUnit& unit, std::size_t number) {
  check(number, unit.program().tables.size(), "table");
  std::vector<Word> words;
  std::vector<std::uint8_t> levels;
  unit.use([&](Unit& u) {
    const Table& table = u.program().tables[number];
    for (std::size_t i = 0; i < table.size(); ++i) {
      const Row row = static_cast<Row>(i);
      for (std::size_t c = 0; c < table.width(); ++c) words.push_back(table.words(row)[c]);
      levels.push_back(table.level(row));
    }
  });
  const Table& table = unit.program().tables[number];
  nb::list list;
  for (std::size_t row = 0; row < levels.size(); ++row) {
    const Word* const key = words.data() + row * table.width();
    list.append(nb::make_tuple(to_tuple(key, table.key_width()),
                               to_tuple(key + table.key_width(), table.value_width()), levels[row]));
  }
  return list;
}

// A row's values and level; none if no row has the key.
std::optional<std::pair<std::vector<Word>, unsigned>> find(SharedUnit& unit, std::size_t number,
                                                           const std::vector<Word>& key) {
  check(number, unit.program().tables.size(), "table");
  const std::size_t wanted = unit.program().tables[number].key_width();
  if (key.size() != wanted) raise(PyExc_ValueError, "the table's key has " + std::to_string(wanted) + " words");
  return unit.use([&](Unit& u) -> std::optional<std::pair<std::vector<Word>, unsigned>> {
    const Table& table = u.program().tables[number];
    const Row row = table.find(key.data());
    if (row == kNoRow) return std::nullopt;
    std::vector<Word> values;
    for (std::size_t i = table.key_width(); i < table.width(); ++i) values.push_back(table.words(row)[i]);
    return {{std::move(values), table.level(row)}};
  });
}

// The rows of a delta with the old and the new one of each group side by side: their order, and what happened to each.
std::pair<Column, Column> pair_rows_of(nb::sequence keys, nb::handle weights) {
  std::vector<InputColumn> columns;
  std::vector<const Word*> words;
  const InputColumn weight(weights, "the weights");
  if (weight.size() >= kMaxRows) raise(PyExc_ValueError, "there are too many rows to pair");
  for (const nb::handle key : keys) columns.emplace_back(key, "key " + std::to_string(columns.size()));
  for (const InputColumn& column : columns) {
    if (column.size() != weight.size()) raise(PyExc_ValueError, "the columns' lengths differ");
    words.push_back(column.words());
  }
  const nb::gil_scoped_release released;
  PairedRows made = pair_rows(words, weight.words(), weight.size());
  return {std::move(made.order), std::move(made.happened)};
}

// What a feed says of rows with these weights: names of changes, and counts unless all are 1.
std::pair<Column, std::optional<Column>> change_columns_of(nb::handle weights) {
  const InputColumn column(weights, "the weights");
  const nb::gil_scoped_release released;
  ChangeColumns made = change_columns(column.words(), column.size());
  return {std::move(made.kinds), std::move(made.counts)};
}

// Columns of words, of one length each, for as long as this lives.
struct InputColumns {
  InputColumns(nb::sequence objects, std::size_t length, const std::string& what) {
    for (const nb::handle object : objects) held.emplace_back(object, what + " " + std::to_string(held.size()));
    if (held.empty() || held.size() > kMostWords) raise(PyExc_ValueError, what + " have 1 to 6 words");
    for (const InputColumn& column : held) {
      if (column.size() != length) raise(PyExc_ValueError, "the columns' lengths differ");
      words.push_back(column.words());
    }
  }

  std::vector<InputColumn> held;
  std::vector<const Word*> words;
};

void check_words(std::size_t words) {
  if (words == 0 || words > kMostWords) raise(PyExc_ValueError, "a number has 1 to 6 words");
}

// Values, or their squares, times factors, in columns of words; or the first row whose product has more words.
std::pair<std::vector<Column>, std::optional<std::size_t>> multiplied_of(nb::handle values, std::size_t width,
                                                                         bool squared, nb::sequence factors,
                                                                         std::size_t words) {
  check_words(width);
  check_words(words);
  const InputColumn value(values, "the values");
  const std::size_t rows = value.size() / width;
  if (rows * width != value.size()) raise(PyExc_ValueError, "the values' words are no whole rows");
  const InputColumns factor(std::move(factors), rows, "the factors");
  const nb::gil_scoped_release released;
  WideProducts made = multiplied(value.words(), width, squared, factor.words, rows, words);
  return {std::move(made.columns), made.beyond};
}

// Numbers in fewer words, side by side, and where they are larger than the largest one.
std::pair<Column, std::optional<Column>> narrowed_of(nb::sequence columns, std::size_t rows,
                                                     const std::vector<Word>& largest, std::size_t words) {
  check_words(largest.size());
  check_words(words);
  const InputColumns column(std::move(columns), rows, "the numbers");
  const nb::gil_scoped_release released;
  NarrowedColumn made = narrowed(column.words, rows, {largest.data(), largest.size()}, words);
  return {std::move(made.numbers), std::move(made.beyond)};
}

std::vector<Row> group(SharedUnit& unit, std::size_t table, std::size_t index, const std::vector<Word>& key) {
  check(table, unit.program().tables.size(), "table");
  check(index, unit.program().tables[table].index_count(), "index");
  const std::size_t wanted = unit.program().tables[table].columns(index).size();
  if (key.size() != wanted) raise(PyExc_ValueError, "the index's key has " + std::to_string(wanted) + " words");
  return unit.use([&](Unit& u) {
    const Table& used = u.program().tables[table];
    const Levels levels{0, static_cast<std::uint8_t>(used.level_count() - 1)};
    if (used.is_whole(index, levels)) {
      std::vector<Row> all(used.size());
      std::iota(all.begin(), all.end(), Row{0});
      return all;
    }
    const std::span<const Row> rows = used.group(index, key.data(), levels);
    return std::vector<Row>(rows.begin(), rows.end());
  });
}

std::vector<Row> in_order(SharedUnit& unit, std::size_t table, std::size_t number, const std::vector<Word>& key) {
  check(table, unit.program().tables.size(), "table");
  check(number, unit.program().tables[table].orders().size(), "ordered index");
  const std::size_t most = unit.program().tables[table].orders()[number].shape().columns.size();
  if (key.size() > most) raise(PyExc_ValueError, "the index's key has at most " + std::to_string(most) + " words");
  return unit.use([&](Unit& u) { return u.program().tables[table].in_order(number, key); });
}

// How many rows a table has, and how many bytes it takes.
std::pair<std::size_t, std::size_t> table_stats(SharedUnit& unit, std::size_t table) {
  check(table, unit.program().tables.size(), "table");
  return unit.use([&](Unit& u) -> std::pair<std::size_t, std::size_t> {
    const Table& asked = u.program().tables[table];
    return {asked.size(), asked.nbytes()};
  });
}

// Words that Python holds as bytes, aligned, which the bytes need not be.
Array<Word> words_of(const nb::bytes& bytes) {
  if (bytes.size() % sizeof(Word) != 0) raise(PyExc_ValueError, "bad snapshot: its length is wrong");
  Array<Word> words;
  words.make_room(bytes.size() / sizeof(Word) + 1);
  words.resize(bytes.size() / sizeof(Word));
  std::memcpy(words.data(), bytes.c_str(), bytes.size());
  return words;
}

// The blocks of a unit's snapshot, one after the other, for as long as its state stays the same.
class PythonSaver {
 public:
  explicit PythonSaver(UnitHandle unit) : unit_(std::move(unit)) {
    unit_->use([&](Unit& used) { writer_.emplace(used); });
  }

  nb::bytes next() {
    Array<Word> words;
    const bool is_there = unit_->use([&](Unit& used) {
      if (writer_->version() != used.version()) throw StaleCursor("the state has changed since it was begun to be saved");
      return writer_->next(words);
    });
    if (!is_there) throw nb::stop_iteration();
    return nb::bytes(words.data(), words.size() * sizeof(Word));
  }

 private:
  UnitHandle unit_;
  std::optional<snapshot::Writer> writer_;
};

// Takes the blocks in again; the unit changes only when all are there.
class PythonLoader {
 public:
  explicit PythonLoader(UnitHandle unit) : unit_(std::move(unit)) {
    unit_->use([&](Unit& used) { loader_.emplace(used.program()); });
  }

  void add(const nb::bytes& bytes) {
    const Array<Word> words = words_of(bytes);
    unit_->use([&](Unit&) {
      if (loader_->add(words.data(), words.size()) != words.size()) snapshot::refuse("a block's length is wrong");
    });
  }

  void finish() {
    unit_->use([&](Unit& used) { used.replace(loader_->take()); });
  }

 private:
  UnitHandle unit_;
  std::optional<snapshot::Loader> loader_;
};

nb::bytes take_snapshot(SharedUnit& unit) {
  const Array<Word> words = unit.use([&](Unit& u) { return snapshot::write(u); });
  return nb::bytes(words.data(), words.size() * sizeof(Word));
}

void restore(SharedUnit& unit, const nb::bytes& bytes) {
  const Array<Word> words = words_of(bytes);
  unit.use([&](Unit& u) { u.replace(snapshot::read(words.data(), words.size(), u.program())); });
}

std::atomic<std::size_t> allocations_before_failure = 0;

void* reallocate_but_one(void* memory, std::size_t bytes) {
  if (allocations_before_failure-- != 0) return reallocate_huge(memory, bytes);
  reallocate = reallocate_huge;
  return nullptr;
}

void fail_allocation(std::optional<std::size_t> number) {
  allocations_before_failure = number.value_or(0);
  reallocate = number ? reallocate_but_one : reallocate_huge;
}

int get_buffer(PyObject* self, Py_buffer* view, int flags) {
  static Word none = 0;
  const Column& column = *nb::inst_ptr<Column>(nb::handle(self));
  void* const words = column.size == 0 ? &none : column.words.get();
  if (PyBuffer_FillInfo(view, self, words, static_cast<Py_ssize_t>(column.size * sizeof(Word)), 1, flags) != 0) {
    return -1;
  }
  if ((flags & PyBUF_FORMAT) == PyBUF_FORMAT) view->format = const_cast<char*>("q");
  view->itemsize = sizeof(Word);
  if ((flags & PyBUF_ND) == PyBUF_ND) {
    auto* const shape = new Py_ssize_t(static_cast<Py_ssize_t>(column.size));
    view->internal = shape;
    view->shape = shape;
    if ((flags & PyBUF_STRIDES) == PyBUF_STRIDES) view->strides = &view->itemsize;
  }
  return 0;
}

void release_buffer(PyObject*, Py_buffer* view) { delete static_cast<Py_ssize_t*>(view->internal); }

PyType_Slot column_slots[] = {{Py_bf_getbuffer, reinterpret_cast<void*>(get_buffer)},
                              {Py_bf_releasebuffer, reinterpret_cast<void*>(release_buffer)},
                              {0, nullptr}};

}  // namespace
}  // namespace everview

NB_MODULE(_kernel, module) {
  using namespace everview;

  module.attr("ENCODING") = kEncoding;
  module.attr("SNAPSHOTS") = snapshot::kVersion;
  module.doc() = "Everview's compiled kernel; use it through everview.kernel.";
#ifdef NDEBUG
  nb::set_leak_warnings(false);  // A unit alive when Python exits is no fault.
#endif

  nb::exception<StaleCursor>(module, "StaleCursor", PyExc_RuntimeError).doc() =
      "A cursor was to go on after the state had changed.";

  nb::class_<Column>(module, "Column", nb::type_slots(column_slots),
                     "A column of 64-bit words: a buffer, and an Arrow array of int64.")
      .def("__len__", [](const Column& column) { return column.size; })
      .def(
          "__arrow_c_array__",
          [](const Column& column, nb::handle) { return nb::make_tuple(arrow::export_schema(), arrow::export_array(column)); },
          "requested_schema"_a.none() = nb::none());

  module.def("change_columns", &change_columns_of, "weights"_a,
             "The bytes of 'insert' or 'delete' for each weight, and the counts; None if all are 1.");

  module.def("pair_rows", &pair_rows_of, "keys"_a, "weights"_a,
             "Row numbers, old and new rows of a group side by side, and what happened: 0 comes, 1 goes, 2 old, 3 new.");

  module.def("fail_allocation", &fail_allocation, "number"_a.none(),
             "For tests: the allocation with this number from now on finds no memory; None: each does.");

  module.def("constant_column", &constant_column, "word"_a, "rows"_a, "One word again and again.");

  module.def("multiplied", &multiplied_of, "values"_a, "width"_a, "squared"_a, "factors"_a, "words"_a,
             "Values, or their squares, times factors, as columns of words; and the first row that has more, if any.");

  module.def("narrowed", &narrowed_of, "columns"_a, "rows"_a, "largest"_a, "words"_a,
             "Numbers in fewer words, side by side, and 1 where they are larger than the largest; None: nowhere.");

  bind_value_table(module);
  bind_census(module);
  bind_batches(module);

  nb::class_<PythonCursor>(module, "Cursor", "Lists a result, a piece at a time, for as long as the state stays the same.")
      .def("fetch", &PythonCursor::fetch, "limit"_a)
      .def("skip", &PythonCursor::skip, "count"_a)
      .def_prop_ro("steps", &PythonCursor::steps);

  nb::class_<PythonSaver>(module, "Saver", "The blocks of a unit's snapshot, for as long as the state stays the same.")
      .def(nb::init<UnitHandle>(), "unit"_a)
      .def("__iter__", [](nb::handle self) { return nb::borrow(self); })
      .def("__next__", &PythonSaver::next);

  nb::class_<PythonLoader>(module, "Loader", "Makes a unit's state from the blocks of a snapshot.")
      .def(nb::init<UnitHandle>(), "unit"_a)
      .def("add", &PythonLoader::add, "block"_a)
      .def("finish", &PythonLoader::finish);

  nb::class_<SharedMachine>(module, "Machine", "What the units of a database have in common.")
      .def(nb::new_([](std::shared_ptr<SharedValues> values) { return std::make_shared<SharedMachine>(std::move(values)); }),
           "values"_a.none() = nb::none())
      .def("begin", [](SharedMachine& self, std::size_t bytes) { self.use([&](Machine& m) { m.begin(bytes); }); },
           "most_log_bytes"_a)
      .def("commit", [](SharedMachine& self) { self.use([](Machine& m) { m.commit(); }); })
      .def("roll_back", [](SharedMachine& self) { return self.use([](Machine& m) { return m.roll_back(); }); })
      .def("nbytes", [](SharedMachine& self) { return self.use([](Machine& m) { return m.nbytes(); }); })
      .def("log_nbytes", [](SharedMachine& self) { return self.use([](Machine& m) { return m.log_nbytes(); }); })
      .def_prop_rw(
          "memory_limit", [](SharedMachine& self) { return self.use([](Machine& m) { return m.memory_limit(); }); },
          [](SharedMachine& self, std::optional<std::size_t> bytes) {
            self.use([&](Machine& m) { m.set_memory_limit(bytes); });
          },
          nb::arg("bytes").none());

  nb::class_<SharedUnit>(module, "Unit", "An encoded program and its state.")
      .def(nb::new_([](const MachineHandle& machine, const std::vector<Word>& code, bool is_logged) {
             return std::make_shared<SharedUnit>(machine, Decoder(code.data(), code.size(), machine->values()).decode(), is_logged);
           }),
           "machine"_a, "code"_a, "is_logged"_a)
      .def("apply", &apply, "procedure"_a, "columns"_a, "first_update"_a)
      .def("apply_some", &apply_some, "procedure"_a, "columns"_a, "first_update"_a, nb::arg("most_pending").none())
      .def("unapply", &unapply, "procedure"_a, "columns"_a, "weights"_a, "count"_a)
      .def("ask", &ask, "procedure"_a, "columns"_a, "channel"_a)
      .def("take", &take, "channel"_a)
      .def("discard", &discard, "channel"_a)
      .def("pending", &pending, "channel"_a)
      .def("open", &open, "cursor"_a, "arguments"_a)
      .def("clear", &clear, "tables"_a, "channels"_a)
      .def("unlink", &SharedUnit::unlink)
      .def("lose_log", [](SharedUnit& self) { self.use([](Unit& u) { u.lose_log(); }); })
      .def("nbytes", [](SharedUnit& self) { return self.use([](Unit& u) { return u.nbytes(); }); })
      .def("table_stats", &table_stats, "table"_a)
      .def("dump", &dump, "table"_a)
      .def("find", &find, "table"_a, "key"_a)
      .def("group", &group, "table"_a, "index"_a, "key"_a)
      .def("in_order", &in_order, "table"_a, "order"_a, "key"_a)
      .def("snapshot", &take_snapshot)
      .def("restore", &restore, "data"_a)
      .def_prop_ro("number", [](SharedUnit& self) { return self.number(); })
      .def_prop_ro("steps", [](SharedUnit& self) { return self.use([](Unit& u) { return u.steps(); }); });
}

// Batches in one call: `everview/engine/direct` describes tables and views by dicts of plain numbers and lists.
#include "batch_bindings.h"

#include <nanobind/stl/optional.h>
#include <nanobind/stl/pair.h>
#include <nanobind/stl/shared_ptr.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/tuple.h>
#include <nanobind/stl/unique_ptr.h>
#include <nanobind/stl/vector.h>

#include "batch_run.h"
#include "read_arrow.h"
#include "read_python.h"

namespace nb = nanobind;
using namespace nb::literals;

namespace everview {
namespace {

using Code = std::vector<Word>;
using Codes = std::vector<Code>;

template <class T>
T get(const nb::dict& from, const char* name) {
  return nb::cast<T>(from[name]);
}

std::vector<nb::dict> dicts(const nb::dict& from, const char* name) { return get<std::vector<nb::dict>>(from, name); }

std::size_t below(std::size_t number, std::size_t end) {
  if (number >= end) raise(PyExc_IndexError, "a number in the description of a batch is too large");
  return number;
}

std::vector<std::uint32_t> all_below(const std::vector<std::uint32_t>& numbers, std::size_t end) {
  for (const std::uint32_t number : numbers) below(number, end);
  return numbers;
}

std::vector<ColumnType> types_of(const Codes& codes) {
  std::vector<ColumnType> types;
  for (const Code& code : codes) types.push_back(ColumnType::of(code));
  return types;
}

// For each column what its CHECK lists: nothing, words, or texts.
RowTypes row_types_of(const Codes& codes, const nb::list& domains) {
  RowTypes made;
  made.types = types_of(codes);
  if (domains.size() != codes.size()) raise(PyExc_ValueError, "there must be as many domains as columns");
  for (const nb::handle listed : domains) {
    if (listed.is_none()) {
      made.domains.emplace_back();
      continue;
    }
    const auto domain = std::make_shared<Domain>();
    for (const nb::handle member : nb::cast<nb::list>(listed)) {
      if (nb::isinstance<nb::bytes>(member)) {
        const auto text = nb::cast<nb::bytes>(member);
        domain->texts.emplace_back(text.c_str(), text.size());
      } else {
        domain->words.push_back(nb::cast<Word>(member));
      }
    }
    std::sort(domain->words.begin(), domain->words.end());
    std::sort(domain->texts.begin(), domain->texts.end());
    made.domains.push_back(domain);
  }
  return made;
}

std::size_t words_of_sum(std::size_t words) {
  if (words == 0 || words > kMostWords) raise(PyExc_ValueError, "a number has 1 to 6 words");
  return words;
}

Summand summand_of(const std::tuple<Code, std::size_t, std::size_t>& described, std::size_t columns, std::size_t constants) {
  const auto& [code, kind, words] = described;
  return {Expression(code, columns, constants), static_cast<SumKind>(below(kind, 3)), words_of_sum(words)};
}

Chosen chosen_of(const std::pair<std::optional<std::uint32_t>, Code>& described, std::size_t columns, std::size_t all,
                 std::size_t constants) {
  Chosen made;
  if (described.first) {
    made.column = static_cast<std::uint32_t>(below(*described.first, columns));
  } else {
    made.computed = Expression(described.second, all, constants);
  }
  return made;
}

std::vector<AtomInput::Test> tests_of(const nb::dict& from, const char* name, std::size_t columns, std::size_t constants) {
  std::vector<AtomInput::Test> tests;
  for (const Code& code : get<Codes>(from, name)) {
    if (code.size() != 5) raise(PyExc_ValueError, "a test has five numbers");
    AtomInput::Test test;
    test.kind = static_cast<AtomInput::Test::Kind>(below(static_cast<std::size_t>(code[0]), 4));
    test.column = static_cast<std::uint32_t>(below(static_cast<std::size_t>(code[1]), columns));
    const bool constant = test.kind == AtomInput::Test::Kind::kEquals;
    test.other = static_cast<std::uint32_t>(below(static_cast<std::size_t>(code[2]), constant ? constants : columns));
    test.least = code[3];
    test.most = code[4];
    tests.push_back(test);
  }
  return tests;
}

std::size_t check_procedure(const Program& program, std::size_t number, std::size_t parameters) {
  below(number, program.procedures.size());
  if (program.procedures[number].parameters != parameters) raise(PyExc_ValueError, "a procedure takes other columns");
  return number;
}

BatchTable table_of(UnitHandle unit, std::size_t change, const std::vector<std::uint32_t>& refusals, std::size_t rows,
                    const std::vector<std::uint32_t>& wide, std::size_t arity) {
  const Program& program = unit->program();
  BatchTable made;
  made.change = check_procedure(program, change, arity + 1);
  made.refusals = all_below(refusals, program.channels.size());
  made.rows = below(rows, program.tables.size());
  made.wide = all_below(wide, arity);
  made.unit = std::move(unit);
  return made;
}

BatchEntry entry_of(const nb::dict& described, const Program& program, std::size_t cores, std::size_t constants) {
  BatchEntry made;
  made.core = below(get<std::size_t>(described, "core"), cores);
  const auto arity = get<std::size_t>(described, "arity");
  std::size_t parameters = 1;
  for (const nb::dict& from : dicts(described, "inputs")) {
    AtomInput& input = made.inputs.emplace_back();
    input.arity = arity;
    input.tests = tests_of(from, "tests", arity, constants);
    for (const Code& code : get<Codes>(from, "computed")) input.computed.emplace_back(code, arity, constants);
    const std::size_t columns = arity + input.computed.size();
    input.later = tests_of(from, "later", columns, constants);
    for (const Code& code : get<Codes>(from, "conditions")) input.conditions.emplace_back(code, columns, constants);
    for (const auto& sum : get<std::vector<std::tuple<Code, std::size_t, std::size_t>>>(from, "sums")) {
      input.sums.push_back(summand_of(sum, columns, constants));
      parameters += input.sums.back().words;
    }
    input.outputs = all_below(get<std::vector<std::uint32_t>>(from, "outputs"), columns);
    for (const auto& [column, code, is_floating] :
         get<std::vector<std::tuple<std::optional<std::uint32_t>, Code, bool>>>(from, "values")) {
      AtomInput::InOrder& value = input.values.emplace_back();
      value.is_floating = is_floating;
      if (column) {
        value.column = static_cast<std::uint32_t>(below(*column, columns));
      } else {
        value.computed = Expression(code, columns, constants);
      }
    }
    parameters += input.outputs.size() + 1 + input.values.size();
  }
  made.wide = all_below(get<std::vector<std::uint32_t>>(described, "wide"), arity);
  made.state_only = check_procedure(program, get<std::size_t>(described, "state_only"), parameters);
  made.with_deltas = check_procedure(program, get<std::size_t>(described, "with_deltas"), parameters);
  return made;
}

Finish finish_of(const nb::dict& from, std::size_t keys, std::size_t measures, std::size_t listed, std::size_t constants) {
  Finish made;
  made.over_everything = keys == 0;
  for (const Code& code : get<Codes>(from, "aggregates")) {
    if (code.size() != 7) raise(PyExc_ValueError, "an aggregate has seven numbers");
    Finish::Aggregate aggregate;
    const auto number = [&](std::size_t i) { return static_cast<std::size_t>(code[i]); };
    aggregate.kind = static_cast<Finish::Aggregate::Kind>(below(number(0), 5));
    aggregate.first = number(1);
    if (aggregate.kind == Finish::Aggregate::Kind::kListed) {
      below(aggregate.first, listed);
      made.aggregates.push_back(aggregate);
      continue;
    }
    aggregate.words = words_of_sum(number(2));
    aggregate.present = number(3);
    aggregate.present_words = words_of_sum(number(4));
    below(aggregate.first + aggregate.words - 1, measures);
    below(aggregate.present + aggregate.present_words - 1, measures);
    aggregate.limit = Limit::of(code[5]);
    aggregate.factor = power_of_ten(static_cast<unsigned>(below(number(6), kMostDigits)));
    made.aggregates.push_back(aggregate);
  }
  const std::size_t all = keys + made.aggregates.size();
  if (const auto having = get<std::optional<Code>>(from, "having")) made.having.emplace(*having, all, constants);
  for (const auto& output : get<std::vector<std::pair<std::optional<std::uint32_t>, Code>>>(from, "outputs")) {
    made.outputs.push_back(chosen_of(output, keys + listed, all, constants));
  }
  made.types = types_of(get<Codes>(from, "types"));
  if (made.types.size() != made.outputs.size()) raise(PyExc_ValueError, "outputs and their types differ in number");
  return made;
}

KeptRows kept_of(const nb::dict& from, const Program& program, std::size_t keys, std::size_t measures) {
  KeptRows made;
  made.keys = keys;
  made.measures = measures;
  made.add = check_procedure(program, get<std::size_t>(from, "add"), keys + measures);
  made.trace = check_procedure(program, get<std::size_t>(from, "trace"), keys + measures);
  made.traced = below(get<std::size_t>(from, "traced"), program.channels.size());
  if (program.channels[made.traced].width() != 2 * measures) raise(PyExc_ValueError, "a channel has another shape");
  made.settle = check_procedure(program, get<std::size_t>(from, "settle"), 1);
  made.drop = check_procedure(program, get<std::size_t>(from, "drop"), keys);
  made.table = below(get<std::size_t>(from, "table"), program.tables.size());
  const Table& rows = program.tables[made.table];
  if (rows.key_width() != keys || rows.value_width() != 2 * measures || rows.level_count() < 2) {
    raise(PyExc_ValueError, "the table of groups has another shape");
  }
  made.wide = all_below(get<std::vector<std::uint32_t>>(from, "wide"), keys);
  return made;
}

RowOutput rows_of(const nb::dict& from, const Program& program, std::size_t width, std::size_t constants) {
  RowOutput made;
  for (const Code& code : get<Codes>(from, "conditions")) made.conditions.emplace_back(code, width, constants);
  for (const auto& output : get<std::vector<std::pair<std::optional<std::uint32_t>, Code>>>(from, "outputs")) {
    made.outputs.push_back(chosen_of(output, width, width, constants));
  }
  for (const auto& [output, constant] : get<std::vector<std::pair<std::size_t, std::size_t>>>(from, "fixed")) {
    made.fixed.push_back({below(output, made.outputs.size()), below(constant, constants)});
  }
  made.types = types_of(get<Codes>(from, "types"));
  if (made.types.size() != made.outputs.size()) raise(PyExc_ValueError, "outputs and their types differ in number");
  if (!from["distinct"].is_none()) {
    made.distinct = kept_of(get<nb::dict>(from, "distinct"), program, made.outputs.size(), 1);
  }
  return made;
}

ListedValues listed_of(const nb::dict& from, const Program& program, const std::vector<BatchCore>& cores, std::size_t keys,
                       std::size_t constants) {
  ListedValues made;
  made.core = below(get<std::size_t>(from, "core"), cores.size());
  made.rows = rows_of(get<nb::dict>(from, "rows"), program, cores[made.core].width, constants);
  if (made.rows.outputs.size() != keys + 1) raise(PyExc_ValueError, "a value has other keys than its group");
  made.change = check_procedure(program, get<std::size_t>(from, "change"), keys + 2);
  made.read = check_procedure(program, get<std::size_t>(from, "read"), std::max<std::size_t>(keys, 1));
  made.answers = below(get<std::size_t>(from, "answers"), program.channels.size());
  if (program.channels[made.answers].width() != 2) raise(PyExc_ValueError, "a channel has another shape");
  made.uses = get<std::optional<std::size_t>>(from, "uses");
  if (made.uses && program.channels[below(*made.uses, program.channels.size())].width() != 2) {
    raise(PyExc_ValueError, "a channel has another shape");
  }
  made.is_floating = get<bool>(from, "is_floating");
  return made;
}

DistinctValues distinct_of(const nb::dict& from, const Program& program, const std::vector<BatchCore>& cores,
                           std::size_t keys, std::size_t measures, std::size_t constants) {
  DistinctValues made;
  made.core = below(get<std::size_t>(from, "core"), cores.size());
  made.rows = rows_of(get<nb::dict>(from, "rows"), program, cores[made.core].width, constants);
  if (made.rows.outputs.size() != keys + 1) raise(PyExc_ValueError, "a value has other keys than its group");
  made.values = kept_of(get<nb::dict>(from, "values"), program, keys + 1, 1);
  made.measure = below(get<std::size_t>(from, "measure"), measures);
  return made;
}

ReadValues read_of(const nb::dict& from, const Program& program, std::size_t keys, std::size_t measures) {
  ReadValues made;
  made.keys = all_below(get<std::vector<std::uint32_t>>(from, "keys"), keys);
  made.ask = check_procedure(program, get<std::size_t>(from, "ask"), std::max<std::size_t>(made.keys.size(), 1));
  made.answers = below(get<std::size_t>(from, "answers"), program.channels.size());
  if (program.channels[made.answers].width() != 2) raise(PyExc_ValueError, "a channel has another shape");
  made.measure = get<std::size_t>(from, "measure");
  below(made.measure + 1, measures);
  made.is_floating = get<bool>(from, "is_floating");
  return made;
}

GroupOutput group_of(const nb::dict& from, const Program& program, const std::vector<BatchCore>& cores,
                     std::size_t constants) {
  const std::size_t width = cores[0].width, channel_width = program.channels[cores[0].delta].width();
  GroupOutput made;
  made.count_words = words_of_sum(get<std::size_t>(from, "count_words"));
  std::size_t measures = made.count_words;
  for (const Code& code : get<Codes>(from, "conditions")) made.conditions.emplace_back(code, width, constants);
  for (const auto& key : get<std::vector<std::pair<std::optional<std::uint32_t>, Code>>>(from, "keys")) {
    made.keys.push_back(chosen_of(key, width, width, constants));
  }
  for (const nb::dict& described : dicts(from, "slots")) {
    GroupOutput::Slot& slot = made.slots.emplace_back();
    slot.words = words_of_sum(get<std::size_t>(described, "words"));
    if (const auto inside = get<std::optional<std::uint32_t>>(described, "inside")) {
      slot.inside = *inside;
      below(slot.inside + slot.words - 1, channel_width);
    } else {
      slot.posted = summand_of({get<Code>(described, "value"), get<std::size_t>(described, "kind"), slot.words}, width, constants);
    }
    measures += slot.words;
  }
  below(width + made.count_words - 1, channel_width);
  measures += get<std::size_t>(from, "further");
  made.kept = kept_of(get<nb::dict>(from, "kept"), program, made.keys.size(), measures);
  for (const nb::dict& described : dicts(from, "listed")) {
    made.listed.push_back(listed_of(described, program, cores, made.keys.size(), constants));
  }
  for (const nb::dict& described : dicts(from, "distinct")) {
    made.distinct.push_back(distinct_of(described, program, cores, made.keys.size(), measures, constants));
  }
  for (const nb::dict& described : dicts(from, "read")) {
    made.read.push_back(read_of(described, program, made.keys.size(), measures));
  }
  for (const nb::dict& described : dicts(from, "handed")) {
    HandedValues& values = made.handed.emplace_back();
    values.core = below(get<std::size_t>(described, "core"), cores.size());
    values.rows = rows_of(get<nb::dict>(described, "rows"), program, cores[values.core].width, constants);
    if (values.rows.outputs.size() != made.keys.size() + 1) raise(PyExc_ValueError, "a value has other keys than its group");
  }
  if (!from["finish"].is_none()) {
    if (!made.handed.empty()) raise(PyExc_ValueError, "groups cannot be finished without the values of their aggregates");
    made.finish = finish_of(get<nb::dict>(from, "finish"), made.keys.size(), measures,
                            made.listed.size() + made.distinct.size() + made.read.size(), constants);
  }
  return made;
}

SetOperation set_of(const nb::dict& from, const Program& program, std::size_t constants) {
  SetOperation made;
  const auto last = static_cast<std::size_t>(SetOperation::Kind::kTestedUnion);
  made.kind = static_cast<SetOperation::Kind>(below(get<std::size_t>(from, "kind"), last + 1));
  made.sides = get<std::size_t>(from, "sides");
  made.types = types_of(get<Codes>(from, "types"));
  if (made.sides < 2) raise(PyExc_ValueError, "a set operation has two sides");
  const bool is_tested = made.kind == SetOperation::Kind::kTestedUnion;
  if (!is_tested && made.kind != SetOperation::Kind::kUnionAll) {
    made.kept = kept_of(get<nb::dict>(from, "kept"), program, made.types.size(), made.sides);
  }
  for (const std::size_t number : get<std::vector<std::size_t>>(from, "constants")) {
    made.constants.push_back(below(number, constants));
  }
  for (const auto& [ask, answers] : get<std::vector<std::pair<std::size_t, std::size_t>>>(from, "tests")) {
    const std::size_t parameters = made.types.size() + made.constants.size();
    made.tests.push_back({check_procedure(program, ask, parameters), below(answers, program.channels.size())});
  }
  if (is_tested && made.tests.size() != made.sides) raise(PyExc_ValueError, "each side of a union is tested");
  return made;
}

std::unique_ptr<BatchView> view_of(UnitHandle unit, const nb::dict& from) {
  auto made = std::make_unique<BatchView>();
  const Program& program = unit->program();
  for (const nb::handle constant : get<nb::list>(from, "constants")) {
    if (nb::isinstance<nb::str>(constant)) {
      made->constants.add_text(nb::cast<std::string>(constant));
    } else {
      const auto [low, high] = nb::cast<std::pair<Word, Word>>(constant);
      made->constants.add_number(exact_of(low, high));
    }
  }
  const std::size_t constants = made->constants.size();
  if (!from["set"].is_none()) {
    made->set = set_of(get<nb::dict>(from, "set"), program, constants);
    made->unit = std::move(unit);
    return made;
  }
  for (const nb::dict& described : dicts(from, "cores")) {
    BatchCore& core = made->cores.emplace_back();
    core.delta = below(get<std::size_t>(described, "delta"), program.channels.size());
    core.width = below(get<std::size_t>(described, "width"), program.channels[core.delta].width());
    core.beyond = get<std::optional<std::size_t>>(described, "beyond");
    if (core.beyond) below(*core.beyond, program.tables.size());
    core.logs = all_below(get<std::vector<std::uint32_t>>(described, "logs"), program.channels.size());
  }
  if (made->cores.empty()) raise(PyExc_ValueError, "a view has a core");
  for (const auto& entries : get<std::vector<std::vector<nb::dict>>>(from, "entries")) {
    std::vector<BatchEntry>& of_relation = made->entries.emplace_back();
    for (const nb::dict& entry : entries) of_relation.push_back(entry_of(entry, program, made->cores.size(), constants));
  }
  if (from["rows"].is_none()) {
    made->group = group_of(get<nb::dict>(from, "group"), program, made->cores, constants);
  } else {
    made->rows = rows_of(get<nb::dict>(from, "rows"), program, made->cores[0].width, constants);
    for (const FixedOutput& fixed : made->rows->fixed) made->constants.stored(fixed.constant);
  }
  made->unit = std::move(unit);
  return made;
}

std::vector<Column> columns_of(const std::vector<std::vector<Word>>& from) {
  std::vector<Column> made;
  for (const std::vector<Word>& words : from) made.push_back(column_of(words));
  return made;
}

// What feeds of a kind may hold, in bytes; below 0 there are none.
FeedOutput feed_output(nb::handle room, bool per_update) {
  FeedOutput made;
  const Word bytes = nb::cast<Word>(room);
  made.is_wanted = bytes >= 0;
  made.room = static_cast<std::size_t>(std::max<Word>(bytes, 0));
  made.per_update = per_update;
  return made;
}

// Its record batches; none if they take more than there is room for.
nb::object batches_of(FeedOutput& feed) {
  if (feed.is_beyond()) return nb::none();
  nb::list made;
  for (std::unique_ptr<FeedBatch>& batch : feed.batches) made.append(nb::cast(std::move(batch)));
  return made;
}

void check_entries(const BatchView& view, std::size_t number, std::size_t columns) {
  for (const BatchEntry& entry : view.entries[below(number, view.entries.size())]) {
    for (const AtomInput& input : entry.inputs) {
      if (input.arity != columns) raise(PyExc_ValueError, "a view reads another relation");
    }
  }
}

// What a batch gives for a view that it has reached: how many of its rows have changed; the record batches of net feeds
// and of those of single updates; groups that are still to be finished (keys, measures
// before, measures now, listed values before, and now, and of each aggregate kept elsewhere the rows that have changed and
// their weights, or none); and, if somebody else reads it, pieces of its rows and weights.
nb::tuple result_of(std::size_t number, ViewOfBatch& view, bool hands_over) {
  nb::object groups = nb::none();
  if (view.groups.size != 0) {
    const ChangedGroups& left = view.groups;
    nb::list handed;
    for (const WordPiece& piece : view.handed) {
      handed.append(piece.columns.empty() ? nb::object(nb::none()) : nb::make_tuple(piece.columns, piece.weights));
    }
    groups = nb::make_tuple(columns_of(left.keys), columns_of(left.old), columns_of(left.now), columns_of(left.listed_old),
                            columns_of(left.listed_now), handed);
  }
  nb::list pieces;
  for (const WordPiece& piece : view.words) {
    if (hands_over) pieces.append(nb::make_tuple(piece.columns, piece.weights));
  }
  return nb::make_tuple(number, view.changed_rows, batches_of(view.net), batches_of(view.updates), groups, pieces);
}

// A batch, with what Python holds of it, so that its tables can be taken back for as long as it is there.
struct HeldBatch {
  HeldBatch() = default;
  HeldBatch(const HeldBatch&) = delete;
  HeldBatch& operator=(const HeldBatch&) = delete;

  MachineHandle machine;
  nb::list pieces, views;
  std::vector<InputColumn> weights;
  std::vector<bool> hands_over;
  std::optional<BatchRun> run;
};

// Pieces are (table, rows, weight or weights, copies in the table, [(view, entries)]), views (view, with deltas, keeps its
// log, identifies inputs, room of net feeds, room of those of single updates, is read by others, [(later view that reads
// it, entries)]); strings of a record batch take about `most_bytes` at most.
std::unique_ptr<HeldBatch> batch_of(const MachineHandle& machine, const nb::list& pieces, const nb::list& views,
                                    Word version, std::size_t most_bytes, bool may_net, bool disjoint) {
  auto batch = std::make_unique<HeldBatch>();
  batch->machine = machine;
  batch->pieces = pieces;
  batch->views = views;
  std::vector<InputColumn>& held = batch->weights;
  std::vector<bool>& hands_over = batch->hands_over;
  std::vector<BatchPiece> made;
  std::vector<ViewOfBatch> concerned;
  for (const nb::handle item : views) {
    const nb::tuple described = nb::cast<nb::tuple>(item);
    ViewOfBatch& view = concerned.emplace_back();
    view.view = nb::cast<BatchView*>(described[0]);
    view.with_deltas = nb::cast<bool>(described[1]);
    view.keeps_log = nb::cast<bool>(described[2]);
    view.identifies = nb::cast<bool>(described[3]);
    view.net = feed_output(described[4], false);
    view.updates = feed_output(described[5], true);
    hands_over.push_back(nb::cast<bool>(described[6]));
    view.readers = nb::cast<std::vector<std::pair<std::size_t, std::size_t>>>(described[7]);
    view.gives_words = hands_over.back() || !view.readers.empty();
    if (view.view->unit->machine() != machine) raise(PyExc_ValueError, "a view is of another machine");
  }
  for (std::size_t i = 0; i < concerned.size(); ++i) {
    for (const auto& [reader, entries] : concerned[i].readers) {
      if (reader <= i) raise(PyExc_ValueError, "a view is read before it is made");
      const std::size_t width = concerned[i].view->width();
      const std::optional<SetOperation>& set = concerned[below(reader, concerned.size())].view->set;
      if (set) {
        if (entries >= set->sides || set->types.size() != width) raise(PyExc_ValueError, "a side has other columns");
        continue;
      }
      check_entries(*concerned[below(reader, concerned.size())].view, entries, width);
    }
  }
  held.reserve(pieces.size());
  made.reserve(pieces.size());
  for (const nb::handle item : pieces) {
    const nb::tuple described = nb::cast<nb::tuple>(item);
    BatchPiece& piece = made.emplace_back();
    piece.table = nb::cast<BatchTable*>(described[0]);
    piece.rows = nb::cast<ReadRows*>(described[1]);
    if (piece.table->unit->machine() != machine) raise(PyExc_ValueError, "a table is of another machine");
    const std::size_t parameters = piece.table->unit->program().procedures[piece.table->change].parameters;
    if (piece.rows->columns().size() + 1 != parameters) raise(PyExc_ValueError, "rows are of another table");
    if (nb::isinstance<nb::int_>(described[2])) {
      piece.own_weights.assign(piece.rows->size(), nb::cast<Word>(described[2]));
      piece.weights = piece.own_weights.data();
    } else {
      const InputColumn& weights = held.emplace_back(described[2], "the weights");
      if (weights.size() != piece.rows->size()) raise(PyExc_ValueError, "there must be as many weights as rows");
      piece.weights = weights.words();
    }
    piece.copies = nb::cast<Word>(described[3]);
    piece.routes = nb::cast<std::vector<std::pair<std::size_t, std::size_t>>>(described[4]);
    for (const auto& [view, number] : piece.routes) {
      check_entries(*concerned[below(view, concerned.size())].view, number, piece.rows->columns().size());
    }
  }
  batch->run.emplace(*machine, std::move(made), std::move(concerned), SharedColumns(version, most_bytes), may_net, disjoint);
  return batch;
}

// Gives 0 done, 1 not begun, 2 to be taken back; whether no join has changed twice; and what has changed in each view that
// the batch has reached.
std::tuple<int, bool, nb::list> run_batch(HeldBatch& batch) {
  BatchRun& run = *batch.run;
  const BatchOutcome outcome = run.run();
  nb::list results;
  if (outcome == BatchOutcome::kDone) {
    for (std::size_t i = 0; i < run.views().size(); ++i) {
      if (run.views()[i].is_reached) results.append(result_of(i, run.views()[i], batch.hands_over[i]));
    }
  }
  return {static_cast<int>(outcome), run.is_net(), results};
}

std::vector<Column> words_of_rows(ReadRows& rows) {
  std::vector<Column> made;
  for (const ReadColumn& column : rows.columns()) made.push_back(column.words);
  return made;
}

// Rows that are stored somewhere, given as columns of words.
std::unique_ptr<ReadRows> rows_of_words(const nb::list& columns, std::size_t rows) {
  auto made = std::make_unique<ReadRows>(std::vector<ColumnType>(columns.size()), rows);
  for (std::size_t i = 0; i < columns.size(); ++i) {
    const InputColumn given(columns[i], "the words");
    if (given.size() != rows) raise(PyExc_ValueError, "columns differ in length");
    ReadColumn& column = made->columns()[i];
    std::copy_n(given.words(), rows, column.words.words.get());
    column.has_nulls = true;  // There may be some.
  }
  return made;
}

std::vector<bool> nulls_of_rows(ReadRows& rows) {
  std::vector<bool> made;
  for (const ReadColumn& column : rows.columns()) made.push_back(column.has_nulls);
  return made;
}

}  // namespace

void bind_batches(nb::module_& module) {
  nb::class_<ReadRows>(module, "ReadRows", "Rows of a table that were read, as words.")
      .def_static("of_words", &rows_of_words, "columns"_a, "rows"_a, "Rows as words that are in use already.")
      .def("__len__", &ReadRows::size)
      .def("encode", [](ReadRows& self, SharedValues& values) { values.use([&](ValueTable& t) { self.encode(&t); }); },
           "values"_a, "Gives strings and the like their ids.")
      .def("words", &words_of_rows, "The columns; of strings and the like only once a batch has given them ids.")
      .def("weights", [](ReadRows& self) { return self.weights; },
           "The change of copies of each row, where they say what happened to them.")
      .def("has_nulls", &nulls_of_rows, "For each column whether there is a NULL.");

  nb::class_<PythonReader>(module, "PythonReader", "Reads lists of tuples, lists or dicts.")
      .def(nb::new_([](const Codes& types, const nb::list& domains, nb::dict names, nb::object decimal, nb::object plain) {
             return std::make_unique<PythonReader>(row_types_of(types, domains), std::move(names), std::move(decimal),
                                                   std::move(plain));
           }),
           "types"_a, "domains"_a, "names"_a, "decimal"_a, "plain"_a)
      .def("read", &PythonReader::read, "rows"_a, "changes"_a, "The rows; None if something about them is not plain.");

  nb::class_<ArrowReader>(module, "ArrowReader", "Reads streams of Arrow's record batches.")
      .def(nb::new_([](const Codes& types, const nb::list& domains) {
             return std::make_unique<ArrowReader>(row_types_of(types, domains));
           }),
           "types"_a, "domains"_a)
      .def("read", &ArrowReader::read, "stream"_a, "rows"_a, "places"_a,
           "The rows; None if something about them is not plain.");

  nb::class_<FeedBatch>(module, "FeedBatch", "A record batch of a change feed, which Arrow can take once.")
      .def("__len__", &FeedBatch::size)
      .def(
          "__arrow_c_array__",
          [](FeedBatch& self, nb::object schema) { return nb::make_tuple(schema, self.take()); }, "requested_schema"_a);

  nb::class_<BatchTable>(module, "BatchTable", "How a table takes rows in.")
      .def(nb::new_([](UnitHandle unit, std::size_t change, const std::vector<std::uint32_t>& refusals, std::size_t rows,
                       const std::vector<std::uint32_t>& wide, std::size_t arity) {
             return std::make_unique<BatchTable>(table_of(std::move(unit), change, refusals, rows, wide, arity));
           }),
           "unit"_a, "change"_a, "refusals"_a, "rows"_a, "wide"_a, "arity"_a);

  nb::class_<BatchView>(module, "BatchView", "How a view takes batches in.")
      .def(nb::new_([](UnitHandle unit, const nb::dict& described) { return view_of(std::move(unit), described); }),
           "unit"_a, "described"_a);

  module.def(
      "total",
      [](const nb::object& column) {
        const InputColumn words(column, "the words");
        Exact sum = 0;
        for (std::size_t i = 0; i < words.size(); ++i) sum += words.words()[i];
        return std::make_pair(high_word(sum), static_cast<std::uint64_t>(low_word(sum)));
      },
      "column"_a, "The sum of words, in two words: the upper one, and the lower one without a sign.");

  nb::class_<HeldBatch>(module, "BatchRun", "A whole batch, run in one call.")
      .def(nb::new_([](const MachineHandle& machine, const nb::list& pieces, const nb::list& views, Word version,
                       std::size_t most_bytes, bool may_net, bool disjoint) {
             return batch_of(machine, pieces, views, version, most_bytes, may_net, disjoint);
           }),
           "machine"_a, "pieces"_a, "views"_a, "version"_a, "most_bytes"_a, "may_net"_a, "disjoint"_a)
      .def("run", &run_batch, "0 done, 1 not begun, 2 to be taken back; and what has changed in each view.")
      .def("take_tables_back", [](HeldBatch& self) { self.run->take_tables_back(); },
           "Has the tables hold what they held before it; it cannot fail, and does nothing if that is so.");
}

}  // namespace everview

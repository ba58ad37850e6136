// Tables and the machine at random, under the sanitizers and with memory that runs out: `make test-asan`.
// An update that is undone, for whatever reason, must leave everything as it was, to the order of the rows in groups.
#include <map>
#include <numeric>
#include <random>

#include "../../src/everview/kernel/cpp/cursor/cursor_tree.h"
#include "../../src/everview/kernel/cpp/run/snapshot.h"
#include "fuzz.h"

namespace {

using namespace everview;
using Key = std::vector<Word>;

// Values with ids 0, 1, …, and in which order they come.
constexpr std::string_view kValues[] = {"b", "", "ab", "\xff", "a", "abc", std::string_view("a\0b", 3)};
constexpr Word kPlaces[] = {5, 0, 3, 6, 1, 4, 2};

const ValueTable& some_values() {
  static ValueTable table;
  if (table.size() != 0) return table;
  const long left = std::exchange(allocations_left, -1);
  for (const std::string_view value : kValues) {
    const std::int32_t offsets[] = {0, static_cast<std::int32_t>(value.size())};
    ValueColumn column;
    column.short_offsets = offsets;
    column.bytes = value.data();
    column.size = 1;
    Word id = 0;
    table.encode(0, column, &id);
  }
  allocations_left = left;
  return table;
}

// A word that compares as the value of `word` does: after all words without one, which are small here.
Word place_of(Word word) {
  const bool has_value = word >= 0 && word < static_cast<Word>(std::size(kValues));
  return has_value ? 1000 + kPlaces[word] : word;
}

// What a table should be, in the plainest way.
struct Model {
  struct Item {
    Key words;
    std::uint8_t level = 0;
  };
  struct Group {
    Key key;
    std::vector<Row> rows;
    std::size_t above[kMostLevels + 1] = {};
  };

  std::size_t key_width;
  std::vector<std::vector<std::uint32_t>> columns;
  std::vector<Item> items;
  std::vector<std::vector<Group>> groups;  // Of each index; empty groups may stay.

  Row find(const Key& key) const {
    for (std::size_t i = 0; i < items.size(); ++i) {
      if (std::equal(key.begin(), key.end(), items[i].words.begin())) return static_cast<Row>(i);
    }
    return kNoRow;
  }

  Group& group(std::size_t index, const Key& words) {
    Key key;
    for (const std::uint32_t c : columns[index]) key.push_back(words[c]);
    for (Group& group : groups[index]) {
      if (group.key == key) return group;
    }
    return groups[index].emplace_back(Group{key, {}, {}});
  }

  static std::size_t position(const Group& group, Row row) {
    return static_cast<std::size_t>(std::find(group.rows.begin(), group.rows.end(), row) - group.rows.begin());
  }

  void insert(const Key& key, std::size_t width) {
    Item item{key, 0};
    item.words.resize(width, 0);
    for (std::size_t i = 0; i < columns.size(); ++i) {
      Group& own = group(i, item.words);
      own.rows.push_back(static_cast<Row>(items.size()));
      ++own.above[0];
    }
    items.push_back(item);
  }

  void set_level(Row row, std::uint8_t level) {
    for (std::size_t i = 0; i < columns.size(); ++i) {
      Group& own = group(i, items[row].words);
      for (std::size_t l = items[row].level + 1u; l <= level; ++l) {
        std::swap(own.rows[position(own, row)], own.rows[own.above[l]]);
        ++own.above[l];
      }
      for (std::size_t l = items[row].level; l > level; --l) {
        --own.above[l];
        std::swap(own.rows[position(own, row)], own.rows[own.above[l]]);
      }
    }
    items[row].level = level;
  }

  void remove(Row row) {
    set_level(row, 0);
    const Row last = static_cast<Row>(items.size() - 1);
    for (std::size_t i = 0; i < columns.size(); ++i) {
      Group& own = group(i, items[row].words);
      std::swap(own.rows[position(own, row)], own.rows.back());
      own.rows.pop_back();
      --own.above[0];
    }
    if (row != last) {
      for (std::size_t i = 0; i < columns.size(); ++i) {
        Group& moved = group(i, items[last].words);
        moved.rows[position(moved, last)] = row;
      }
      items[row] = items[last];
    }
    items.pop_back();
  }
};

// The ordered indexes against a sorted list: every group's order, every rank both ways.
void check_orders(const Table& table, const Model& model) {
  const RowsView rows = table.view();
  for (std::size_t i = 0; i < table.orders().size(); ++i) {
    const OrderedIndex& order = table.orders()[i];
    const std::vector<std::uint32_t>& columns = order.shape().columns;
    std::vector<Key> keys;
    for (const Model::Item& item : model.items) {
      Key& key = keys.emplace_back();
      const std::vector<std::uint32_t>& by_value = order.shape().by_value;
      for (const std::uint32_t c : columns) {
        const bool is_id = std::find(by_value.begin(), by_value.end(), c) != by_value.end();
        const Word place = is_id ? place_of(item.words[c]) : item.words[c];
        const std::vector<std::uint32_t>& descending = order.shape().descending;
        const bool is_turned = std::find(descending.begin(), descending.end(), c) != descending.end();
        key.push_back(is_turned ? ~place : place);
      }
      key.insert(key.end(), item.words.begin(), item.words.begin() + static_cast<long>(model.key_width));
    }
    std::vector<Row> sorted(model.items.size());
    for (std::size_t r = 0; r < sorted.size(); ++r) sorted[r] = static_cast<Row>(r);
    std::sort(sorted.begin(), sorted.end(), [&](Row a, Row b) { return keys[a] < keys[b]; });
    for (std::size_t width = 0; width <= columns.size(); ++width) {
      for (std::size_t begin = 0, end = 0; begin < sorted.size(); begin = end) {
        const Key& key = keys[sorted[begin]];
        Key asked;
        for (const std::uint32_t c : columns) asked.push_back(model.items[sorted[begin]].words[c]);
        const auto in_group = [&](std::size_t at) {
          return at < sorted.size() && std::equal(key.begin(), key.begin() + static_cast<long>(width), keys[sorted[at]].begin());
        };
        OrderedIndex::Sum total = 0;
        while (in_group(end)) {
          const auto measure = order.shape().measure;
          const Word own = measure ? std::max<Word>(model.items[sorted[end]].words[*measure], 0) : 1;
          expect(order.rank(sorted[end], width, rows) == total, "a rank differs");
          if (own != 0 && total <= std::numeric_limits<Word>::max() - own) {
            expect(order.select(asked.data(), width, static_cast<Word>(total), rows) == sorted[end], "a selection differs");
            expect(order.select(asked.data(), width, static_cast<Word>(total + own - 1), rows) == sorted[end],
                   "a selection differs at a row's last rank");
          }
          total += own;
          const bool last = !in_group(++end);
          expect(order.next(sorted[end - 1], false, width, rows) == (last ? kNoRow : sorted[end]), "the next row differs");
          if (!last) expect(order.next(sorted[end], true, width, rows) == sorted[end - 1], "the row before differs");
        }
        expect(order.size(asked.data(), width, rows) == total, "a group's ranks differ");
        expect(order.first(asked.data(), width, rows) == sorted[begin], "the first row differs");
        if (!order.shape().measure) {
          expect(order.select(asked.data(), width, -1, rows) == sorted[end - 1], "the last row differs");
          const auto size = static_cast<Word>(total);
          expect(order.select(asked.data(), width, -size, rows) == sorted[begin], "the first row from the end differs");
          expect(order.select(asked.data(), width, -size - 1, rows) == kNoRow, "a row is before the first");
          expect(order.select(asked.data(), width, size, rows) == kNoRow, "a row is after the last");
        }
      }
    }
    const std::size_t depth = order.depth();
    const std::size_t most = 3 * static_cast<std::size_t>(std::bit_width(sorted.size()));
    expect(depth <= most, "a tree is out of balance");
  }
}

void check(const Table& table, const Model& model) {
  expect(table.size() == model.items.size(), "the number of rows differs");
  for (std::size_t i = 0; i < model.items.size(); ++i) {
    const Row row = static_cast<Row>(i);
    Key words;
    for (std::size_t c = 0; c < table.width(); ++c) words.push_back(table.words(row)[c]);
    expect(words == model.items[i].words, "a row differs");
    expect(table.level(row) == model.items[i].level, "a level differs");
    expect(table.find(words.data()) == row, "a row is not found");
  }
  for (std::size_t i = 0; i < model.groups.size(); ++i) {
    for (const Model::Group& group : model.groups[i]) {
      for (std::uint8_t highest = 0; highest < table.level_count(); ++highest) {
        for (std::uint8_t lowest = 0; lowest <= highest; ++lowest) {
          if (table.is_whole(i, {lowest, highest})) continue;
          if (table.stored_number(i) == Table::kNotStored && group.key.empty() && model.key_width != 0) continue;
          const std::span<const Row> rows = table.group(i, group.key.data(), {lowest, highest});
          const std::size_t begin = group.above[highest + 1];
          expect(rows.size() == group.above[lowest] - begin, "a group's size differs");
          const auto first = group.rows.begin() + static_cast<long>(begin);
          expect(std::equal(rows.begin(), rows.end(), first), "a group's order differs");
        }
      }
    }
  }
  std::vector<Word> units;  // Where a value's words begin there is 1 if it is 1, and 0 in those above.
  for (const std::size_t width : table.value_widths()) units.insert(units.end(), 1, 1), units.insert(units.end(), width - 1, 0);
  for (std::size_t c = 0; c < table.width(); ++c) {
    const auto is_one = [&](const auto& item) { return item.words[c] == units[c - model.key_width]; };
    const bool one = c >= model.key_width && std::all_of(model.items.begin(), model.items.end(), is_one);
    expect(table.all_one(c) == one, "a column of ones is not known");
  }
  check_orders(table, model);
}

void undo(Table& table, UndoLog& log) {
  while (!log.empty()) table.undo(log.pop_header().kind, log);
}

void fuzz_table(unsigned seed) {
  std::mt19937_64 random(seed);
  const auto below = [&](std::uint64_t n) { return random() % n; };
  const std::size_t key_width = below(4);
  const std::size_t value_width = below(4);
  std::vector<std::vector<std::uint32_t>> indexes(below(4));
  for (auto& columns : indexes) {
    for (std::uint32_t c = 0; c < key_width; ++c) {
      if (below(2) == 0) columns.push_back(c);
    }
  }
  std::vector<OrderedIndex::Shape> orders(below(3));
  for (OrderedIndex::Shape& order : orders) {
    for (std::uint32_t c = 0; c < key_width; ++c) {
      if (below(2) == 0) order.columns.insert(order.columns.begin() + static_cast<long>(below(order.columns.size() + 1)), c);
    }
    order.values = &some_values();
    for (const std::uint32_t c : order.columns) {
      if (below(3) == 0) order.by_value.push_back(c);
      if (below(3) == 0) order.descending.push_back(c);
    }
    if (value_width != 0 && below(2) == 0) order.measure = static_cast<std::uint32_t>(key_width + below(value_width));
  }
  const auto levels = static_cast<std::uint32_t>(1 + below(kMostLevels));
  std::vector<std::size_t> widths;  // Ranks may be by any word here.
  for (std::size_t words = 0; words < value_width; words += widths.back()) {
    widths.push_back(1 + below(std::min<std::size_t>(kMostWords, value_width - words)));
  }
  Table table(0, key_width, widths, indexes, orders, levels);
  for (std::size_t i = 0; i < indexes.size(); ++i) {
    if (indexes[i].empty() && below(2) == 0) table.keep_whole(i);
  }
  if (below(4) == 0) table = table.fresh();
  UndoLog log;
  Model model{key_width, indexes, {}, std::vector<std::vector<Model::Group>>(indexes.size())};
  const std::uint64_t spread = 1 + below(12);
  const std::uint64_t wide = below(3) == 0 ? 0 : 1 + below(400);  // How seldom a word takes more than 32 bits.
  const auto some_word = [&](Word small) {
    if (below(9) == 0) return kLowestWord;
    return wide != 0 && below(wide) == 0 ? small - (Word{1} << (30 + below(33))) : small;
  };
  const bool shares = below(2) == 0;  // Most rows have the same values.
  for (int update = 0; update < 300; ++update) {
    const Model before = model;
    log.clear();
    const std::uint64_t removals = update / 60 % 2 == 0 ? 25 : 75;  // Of 100 changes; grows and shrinks in turn.
    bool failed = false;
    allocations_left = below(3) == 0 ? static_cast<long>(below(6)) : -1;
    try {
      for (std::uint64_t step = below(12); step > 0; --step) {
        Key key(key_width);
        for (Word& word : key) word = some_word(static_cast<Word>(below(spread)));
        const Row row = table.find(key.data());
        expect(row == model.find(key), "a row is found elsewhere");
        if (row == kNoRow) {
          const bool is_plain = shares && below(60) != 0;
          Key values(is_plain ? value_width : below(value_width + 1), 1);
          for (Word& word : values) word = is_plain ? 1 : some_word(static_cast<Word>(below(3)));
          const Row added = table.insert(table.locate(key.data()), key.data(), values, log);
          model.insert(key, key_width + value_width);
          std::copy(values.begin(), values.end(), model.items[added].words.begin() + static_cast<long>(key_width));
        } else if (below(100) < removals) {
          table.remove(row, log);
          model.remove(row);
        } else if (below(2) == 0 || value_width == 0) {
          const auto level = static_cast<std::uint8_t>(below(levels));
          table.set_level(row, level, log);
          model.set_level(row, level);
        } else {
          const std::size_t column = below(value_width);
          const Word word = shares && below(60) != 0 ? 1 : below(2) == 0 ? static_cast<Word>(below(4)) - 1 : some_word(static_cast<Word>(below(1 << 20)));
          table.store(row, column, word, log);
          model.items[row].words[key_width + column] = word;
        }
        if (below(4) == 0) check(table, model);
      }
    } catch (const std::bad_alloc&) {
      failed = true;
    }
    if (failed || below(3) == 0) {
      allocations_left = 0;  // Undoing needs no memory.
      undo(table, log);
      model = before;
    }
    allocations_left = below(2) == 0 ? 0 : -1;  // Giving memory back may fail to get any.
    table.tidy();
    allocations_left = -1;
    check(table, model);
  }
  while (table.size() != 0) {
    log.clear();
    table.remove(static_cast<Row>(below(table.size())), log);
    table.tidy();
  }
  expect(table.nbytes() < 4096 * (1 + indexes.size() + orders.size()), "memory is kept when the rows are gone");
}

// change(a, b, c): three tables, upserts with levels, loops with an emit, removal at zero, numbers of several words, and an
// overflow at will.
std::vector<Word> program() {
  enum : Word { kReg, kLit, kKey, kValue, kUpdate };
  const std::vector<Word> key = {2, kReg, 0, kReg, 1};
  // Each table has its key's words, its values' words, its indexes, its ordered ones and its levels.
  std::vector<Word> code = {3, 2, 1, 1, 3, 1, 0, 1, 1, 0, 2, 2, 0, 1, 0, 0, 1, 1, 1, 1, 1, 1, 1, 0, 2, /* table 1: */ 1, 1, 1, 1, 1, 0, 0, 0,
                            /* table 2: */ 1, 1, 3, 1, 1, 0, 0, 0, /* channels: */ 2, 3, 1, /* procedures: */ 2, 3, 9};
  const auto add = [&](std::initializer_list<Word> words) { code.insert(code.end(), words); };
  const auto add_key = [&] { code.insert(code.end(), key.begin(), key.end()); };
  add({17});                                               // So many instructions.
  add({16, 4, 1, 1, kReg, 0, 1, kReg, 2});                 // Add c to table 1's row of a,
  add({0, 1, 1, 11, 0, 3, 0, 1, kLit, 0, 0, 1, kKey, 4, 1, 0, 0, 1, kValue, 4, 1, 0, 0});  // telling of rows that vanish.
  add({1, 3, 0}), add_key(), add({0, 1, 2, 3, 0}), add_key();  // Find r3 in table 0, or insert it.
  add({1, 4, 1, 1, kReg, 1, 0, 1, 2, 4, 1, 1, kReg, 1});    // Find r4 in table 1 by b, or insert it.
  add({0, 5, 0, kValue, 3, 0, 0, kReg, 2});                // r5 = r3.value + c
  add({4, 3, 0, 0, kReg, 5});                              // r3.value = r5
  add({5, 3, 0, 1});                                       // r3 to level 1
  add({10, 4, 0, 0, 1, kReg, 0, 0, 2, 1, 11, 0, 3, 0, 1, kReg, 0, 0, 1, kKey, 4, 0, 1});  // Scan, emit.
  add({0, 2, kReg, 2, kValue, 4, 0, 0});
  add({13, 4, 0, 0, 1, kReg, 0, kLit, -1, 0, 0});           // Select r4 in table 0, the last of a.
  add({14, 4, 3, 0, 1, 1});                                // r4 = rank of r3 by measure in its b
  add({15, 4, 0, 1, 0});                                   // r4 = all ranks by measure
  add({8, 0, kReg, 5, kLit, 0, 1, 3, 3, 0, 0});             // If r5 = 0: remove r3.
  add({17, 1, 11, 0, 3, 0, 1, kReg, 0, 0, 1, kReg, 0, 0, 3, kReg, 2, kReg, 2, kReg, 2});  // Silently: emit a, a, c * c * c.
  add({0, 5, 2, kReg, 2, kReg, 2});                        // r5 = c * c
  add({18, 6, 3, 2, 1, kReg, 2, 1, kLit, Word{1} << 50});  // r6, of three words, = c * 2^50
  add({16, 4, 2, 1, kReg, 0, 3, kReg, 6, kReg, 7, kReg, 8, 0, 1, 0, 0});  // Add it to table 2's row of a.
  add({10, 4, 2, 0, 1, kReg, 0, 0, 0, 1, 11, 0, 1, 3, 2});  // Scan, and emit three words: that value times c.
  add({3, kValue, 4, 2, 0, kValue, 4, 2, 1, kValue, 4, 2, 2, 1, kReg, 2});
  add({19, 2, 3, kReg, 6, kReg, 7, kReg, 8, 1, kLit, 5, 0, 0});  // If r6 < 5: nothing.
  // has(a, b): whether table 0 has such a row, told to channel 1.
  add({2, 4, 2, 1, 3, 0}), add_key(), add({1, 0, 2, 0, kLit, 1, kLit, 0, 1, 0, 2, 0, kLit, 0, kLit, 0, 11, 1, 1, 0, 1, kReg, 2});
  // Three cursors: table 0 in order 1, downwards from a rank, and the rows of the same a in order 0.
  add({3, 1, 3, 2, 1, 1, 0, 1, 0, kReg, 0, 1, 1, 2, 0, 0, 1, kKey, 1, 0, 0, kLit, 0, 0});
  add({2, 0, 1, kKey, 1, 0, 1, 0, 1, kKey, 2, 0, 1});
  // Every first word once, r1, as a bucket for each row r2 gives those of its second word; r4 says whether it is there
  // with the argument, and r5 is 7, after its second words if it is not.
  add({1, 7, 3});
  add({6, 1, 1, 0, 2, 0, 2, 0, 0, 2, 1, 0, 3, 0, 1, 1, kKey, 2, 0, 1, 0, 2, 1, 0, 1, kKey, 3, 0, 0});
  add({1, 1, 2, kReg, 1, kKey, 2, 0, 1});
  add({3, 1, 1, 2, kReg, 1, kReg, 0, 1, 4});
  add({4, 1, 5, 2, 2, 2, 3, kReg, 4, kLit, 0, 0, 6, 0, 0, 1, kReg, 1, 0, 2, 1, 0, 1, kKey, 6, 0, 1, 0, 1, 0, 1, kLit, 7});
  add({3, 0, 1, kReg, 1, 0, 1, kReg, 4, 0, 1, kReg, 5});
  // The second words of two first words, each once: those of the argument, downwards, and those of 3.
  add({1, 5, 1, 5, 1, 1, 2, 1, 1, 2, 0, 0, 1, kReg, 0, kLit, 0, 1, 1, 0, 1, kKey, 2, 0, 1, 1, 1, 2, kReg, 0, kReg, 1});
  add({1, 0, 3, 0, 0, 1, kLit, 3, 0, 2, 1, 0, 1, kKey, 3, 0, 1, 1, 1, 2, kLit, 3, kReg, 1});
  add({1, 0, 1, kReg, 1});
  return code;
}

// A cursor that ran out of memory has lost rows, and does not go on as if it had not.
void list_without_memory(Unit& unit, Word argument) {
  for (const CursorPlan& plan : unit.program().cursors) {
    const std::vector<Word> arguments(plan.parameters, argument);
    CursorState cursor(unit, plan, arguments.data());
    Channel rows(plan.outputs.size());
    BufferPool::shared().clear();
    allocations_left = 0;
    bool failed = false;
    try {
      cursor.run(&rows, 7);
    } catch (const std::bad_alloc&) {
      failed = true;
    }
    allocations_left = -1;
    if (failed) expect_refused<Fault>("a cursor goes on after it ran out of memory", [&] { cursor.run(&rows, 7); });
  }
}

// Opens all cursors and reads them to their ends, a few rows at a time; the last of them is known to be right if `checked`.
void list(Unit& machine, Word argument, bool checked) {
  for (const CursorPlan& plan : machine.program().cursors) {
    const std::vector<Word> arguments(plan.parameters, argument);
    CursorState cursor(machine, plan, arguments.data());
    Channel rows(columns_of(plan.outputs));
    try {
      for (std::size_t reads = 0; reads < 50 && cursor.run(&rows, 7) != 0; ++reads) continue;
    } catch (const Fault&) {
      expect(!checked, "a cursor fails");
    }
    if (!checked || &plan != &machine.program().cursors.back() || rows.size() >= 350) continue;
    std::vector<Word> found(rows.end(0) - rows.size(), rows.end(0)), wanted;
    for (std::size_t i = 0; i < machine.program().tables[0].size(); ++i) {
      const RowRef row = machine.program().tables[0].words(static_cast<Row>(i));
      if (row[0] == argument || row[0] == 3) wanted.push_back(row[1]);
    }
    std::sort(found.begin(), found.end());
    std::sort(wanted.begin(), wanted.end());
    wanted.erase(std::unique(wanted.begin(), wanted.end()), wanted.end());
    expect(found == wanted, "a union lists something else");
  }
}

void fuzz_machine(unsigned seed) {
  std::mt19937_64 random(seed);
  const auto below = [&](std::uint64_t n) { return random() % n; };
  const std::vector<Word> code = program();
  Machine host;
  Unit machine(host, Decoder(code.data(), code.size(), &some_values()).decode(), true);
  for (int batch = 0; batch < 60; ++batch) {
    std::vector<Word> columns[3];
    const std::size_t rows = below(20);
    for (std::size_t i = 0; i < rows; ++i) {
      columns[0].push_back(static_cast<Word>(below(6)));
      columns[1].push_back(static_cast<Word>(below(9)));
      columns[2].push_back(below(40) == 0 ? Word{1} << 40 : static_cast<Word>(below(5)) - 2);
    }
    for (std::size_t i = 0; i < rows; ++i) {
      const Array<Word> before = snapshot::write(machine);
      const std::size_t emitted = machine.channel(0).size();
      allocations_left = below(2) == 0 ? static_cast<long>(below(8)) : -1;
      const auto failure = machine.apply(0, {&columns[0][i], &columns[1][i], &columns[2][i]}, 1, 0, SIZE_MAX).failure;
      allocations_left = -1;
      if (!failure) continue;
      const Array<Word> after = snapshot::write(machine);
      expect(machine.channel(0).size() == emitted, "a failed update has emitted");
      // Groups may come in another order; the order within them, and that of the rows, is checked by fuzz_table.
      expect(before.size() == after.size(), "a failed update has left something");
    }
    list(machine, static_cast<Word>(below(6)), true);
    list_without_memory(machine, static_cast<Word>(below(6)));
    const std::size_t most = 1 + below(64);  // In blocks of any size.
    const Array<Word> words = snapshot::write(machine, most);
    if (below(2) == 0) machine.replace(snapshot::read(words.data(), words.size(), machine.program()));
    const Array<Word> again = snapshot::write(machine, most);
    expect(std::equal(words.begin(), words.end(), again.begin(), again.end()), "a snapshot restores something else");
    if (below(3) == 0) machine.channel(0).take();
    std::vector<Word> damaged(words.begin(), words.end());
    std::vector<std::pair<std::size_t, std::size_t>> blocks;  // Where each begins, and how many words follow its header.
    for (std::size_t at = 0; at < damaged.size(); at += snapshot::kHeader + blocks.back().second) {
      blocks.emplace_back(at, static_cast<std::size_t>(damaged[at + 3]));
    }
    for (int i = 0; i < 20; ++i) {
      const auto [begin, size] = blocks[below(blocks.size())];
      const std::size_t at = begin + snapshot::kHeader + below(size);
      const Word old = damaged[at];
      damaged[at] = below(2) == 0 ? static_cast<Word>(random()) : static_cast<Word>(below(20));
      damaged[begin + 4] = snapshot::checksum(damaged.data() + begin + snapshot::kHeader, size);
      try {
        snapshot::read(damaged.data(), damaged.size(), machine.program());
      } catch (const std::invalid_argument&) {
      }
      if (below(2) == 0) damaged[at] = old;
      damaged[begin + 4] = snapshot::checksum(damaged.data() + begin + snapshot::kHeader, size);
    }
  }
}

// Removes all rows of all tables, and what all channels hold.
void clear_all(Unit& unit) {
  std::vector<std::uint32_t> tables(unit.program().tables.size());
  std::vector<std::uint32_t> channels(unit.program().channels.size());
  std::iota(tables.begin(), tables.end(), 0);
  std::iota(channels.begin(), channels.end(), 0);
  unit.clear(tables, channels);
}

// Batches, in which lookups are fetched ahead, give what the updates give one by one; also after the tables have been
// replaced, and when an update in the middle fails.
void fuzz_batches(unsigned seed) {
  std::mt19937_64 random(seed);
  const auto below = [&](std::uint64_t n) { return random() % n; };
  const std::vector<Word> code = program();
  Machine host;
  Unit batched(host, Decoder(code.data(), code.size(), &some_values()).decode(), true);
  Unit single(host, Decoder(code.data(), code.size(), &some_values()).decode(), true);
  for (int batch = 0; batch < 30; ++batch) {
    std::vector<Word> columns[3];
    const std::size_t rows = 8 + below(60);
    for (std::size_t i = 0; i < rows; ++i) {
      columns[0].push_back(static_cast<Word>(below(9)));
      columns[1].push_back(static_cast<Word>(below(40)));
      columns[2].push_back(below(300) == 0 ? Word{1} << 40 : static_cast<Word>(below(5)) - 2);
    }
    const auto outcome = batched.apply(0, {columns[0].data(), columns[1].data(), columns[2].data()}, rows, 0, SIZE_MAX);
    for (std::size_t i = 0; i < std::min(rows, outcome.done + 1); ++i) {
      const auto one = single.apply(0, {&columns[0][i], &columns[1][i], &columns[2][i]}, 1, 0, SIZE_MAX);
      expect(one.failure.has_value() == (i == outcome.done), "a batch fails elsewhere");
    }
    const Array<Word> a = snapshot::write(batched);
    const Array<Word> b = snapshot::write(single);
    expect(std::equal(a.begin(), a.end(), b.begin(), b.end()), "a batch gives another state");
    expect(batched.channel(0).size() == single.channel(0).size(), "a batch emits something else");
    expect(batched.steps() == single.steps(), "a batch takes other steps");
    for (Unit* machine : {&batched, &single}) {
      if (batch % 5 == 4) clear_all(*machine);
      if (batch % 7 == 6) machine->replace(snapshot::read(b.data(), b.size(), machine->program()));
    }
  }
}

// All rows of all tables with their levels, in any order; and that each stands once in its group of every index.
std::map<std::vector<Word>, unsigned> contents(const Unit& unit) {
  std::map<std::vector<Word>, unsigned> found;
  for (const Table& table : unit.program().tables) {
    std::vector<std::size_t> grouped(table.index_count());
    for (std::size_t i = 0; i < table.size(); ++i) {
      const Row row = static_cast<Row>(i);
      std::vector<Word> words = {Word{table.number()}};
      for (std::size_t c = 0; c < table.width(); ++c) words.push_back(table.words(row)[c]);
      found[words] = table.level(row);
      expect(table.find(words.data() + 1) == row, "a row is not found by its key");
      for (std::size_t index = 0; index < table.index_count(); ++index) {
        const bool is_stored = table.stored_number(index) != Table::kNotStored;
        if (table.columns(index).empty() && !is_stored) continue;  // All rows of the table, which nobody asks for by group.
        std::vector<Word> key;
        for (const std::uint32_t column : table.columns(index)) key.push_back(words[1 + column]);
        const std::uint8_t level = table.level(row);
        const auto group = table.group(index, key.data(), {level, level});
        expect(std::count(group.begin(), group.end(), row) == 1, "a row is not in its group");
      }
    }
  }
  return found;
}

// A batch is taken back to what there was before it, whatever it did and wherever it failed; and what it leaves goes on
// working. Memory may run out on the way there, but not on the way back, or the log is lost, and said to be.
void fuzz_undo(unsigned seed) {
  std::mt19937_64 random(seed);
  const auto below = [&](std::uint64_t n) { return random() % n; };
  const std::vector<Word> code = program();
  Machine host;
  Unit unit(host, Decoder(code.data(), code.size(), &some_values()).decode(), true);
  for (int batch = 0; batch < 25; ++batch) {
    unit.channel(0).clear();
    const auto before = contents(unit);
    const std::size_t most = below(8) == 0 ? below(3000) : SIZE_MAX;
    host.begin(most);
    bool failed = false;
    for (std::uint64_t calls = below(6); calls > 0 && !failed; --calls) {
      std::vector<Word> columns[3];
      const std::size_t rows = below(below(2) == 0 ? 100 : 12);
      for (std::size_t i = 0; i < rows; ++i) {
        columns[0].push_back(static_cast<Word>(below(6)));
        columns[1].push_back(static_cast<Word>(below(40)));
        columns[2].push_back(below(900) == 0 ? Word{1} << 40 : static_cast<Word>(below(5)) - 2);
      }
      allocations_left = below(4) == 0 ? static_cast<long>(below(40)) : -1;
      failed = unit.apply(0, {columns[0].data(), columns[1].data(), columns[2].data()}, rows, 0, SIZE_MAX).failure.has_value();
      allocations_left = -1;
    }
    if (!failed && below(2) == 0) {
      host.commit();
      (void)contents(unit);
      continue;
    }
    const bool starves = below(10) == 0;
    allocations_left = starves ? static_cast<long>(below(5)) : -1;
    const std::vector<std::size_t> lost = host.roll_back();
    allocations_left = -1;
    expect(unit.channel(0).size() == 0, "a batch that is taken back has emitted");
    if (lost.empty()) {
      expect(contents(unit) == before, "a batch is not taken back");
    } else {
      expect(most != SIZE_MAX || starves, "a log is lost without a reason");
      clear_all(unit);
    }
  }
  std::size_t bytes = unit.nbytes();
  unit.report();
  expect(host.nbytes() == bytes, "the machine counts other bytes than its unit");
}

void fuzz_decoder(unsigned seed) {
  std::mt19937_64 random(seed);
  for (int i = 0; i < 300; ++i) {
    std::vector<Word> code = program();
    for (std::uint64_t changes = 1 + random() % 3; changes > 0; --changes) {
      code[random() % code.size()] = random() % 4 == 0 ? static_cast<Word>(random()) : static_cast<Word>(random() % 12);
    }
    if (random() % 4 == 0) code.resize(random() % code.size());
    try {
      Machine host;
      Unit machine(host, Decoder(code.data(), code.size(), &some_values()).decode(), true);
      for (std::size_t p = 0; p < machine.program().procedures.size(); ++p) {
        const std::vector<Word> column = {1, 2, 0, 1, 1, 0, 3};
        const std::vector<const Word*> columns(machine.program().procedures[p].parameters, column.data());
        (void)machine.apply(p, columns, columns.size() > 100 ? 0 : column.size(), 0, SIZE_MAX);
      }
      list(machine, 1, false);
    } catch (const std::invalid_argument&) {
    }
  }
}

}  // namespace

int main() {
  reallocate = reallocate_or_fail;
  prefetch_from_bytes = 0;
  for (unsigned seed = 0; seed < 80; ++seed) {
    fuzz_table(seed);
    fuzz_machine(seed);
    fuzz_batches(seed);
    fuzz_undo(seed);
    fuzz_decoder(seed);
  }
  BufferPool::shared().clear();
  std::puts("table_fuzz: 80 random runs, nothing wrong");
}

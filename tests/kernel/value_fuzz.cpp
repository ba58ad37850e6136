// The value table at random beside a map, under the sanitizers and with memory that runs out: `make test-asan`.
// A call that fails must leave everything as it was.
#include <map>
#include <memory>
#include <optional>
#include <random>
#include <vector>

#include "../../src/everview/kernel/cpp/values/value_table.h"
#include "fuzz.h"

namespace {

using namespace everview;

using Values = std::vector<std::optional<std::string>>;

// Values in memory of exactly their size, with others before them, so that a wrong offset reads what is not there.
class ArrowValues {
 public:
  ArrowValues(const Values& values, std::size_t before, bool is_long) {
    long_ = {0};
    for (std::size_t i = 0; i < before; ++i) add("before");
    for (const auto& value : values) add(value);
    short_.assign(long_.begin(), long_.end());
    bytes_.shrink_to_fit();
    column = {valid_.data(), is_long ? nullptr : short_.data(), is_long ? long_.data() : nullptr,
              bytes_.data(), before, values.size()};
  }

  ValueColumn column;

 private:
  void add(const std::optional<std::string>& value) {
    const std::size_t i = long_.size() - 1;
    if (i % 8 == 0) valid_.push_back(0);
    if (value) valid_.back() = static_cast<std::uint8_t>(valid_.back() | 1u << (i % 8));
    if (value) bytes_.insert(bytes_.end(), value->begin(), value->end());
    long_.push_back(static_cast<std::int64_t>(bytes_.size()));
  }

  std::vector<std::uint8_t> valid_;
  std::vector<std::int64_t> long_;
  std::vector<std::int32_t> short_;
  std::vector<char> bytes_;
};

struct Use {
  Word id = 0;
  Word uses = 0;
};
using Model = std::map<std::pair<ValueKind, std::string>, Use>;

template <class Offset>
void check_decoded(const ValueTable& table, ValueKind kind, const std::vector<Word>& ids, const Values& values) {
  const ValueArray<Offset> made = table.decode<Offset>(kind, ids.data(), ids.size());
  expect(made.size == ids.size() && made.offsets.size() == ids.size() + 1, "the size of what is decoded");
  std::size_t nulls = 0;
  for (std::size_t i = 0; i < ids.size(); ++i) {
    const auto begin = static_cast<std::size_t>(made.offsets[i]), end = static_cast<std::size_t>(made.offsets[i + 1]);
    const std::string found(made.bytes.data() + begin, end - begin);
    expect(found == values[i].value_or(""), "a decoded value");
    if (!values[i]) ++nulls;
    if (!made.valid.empty()) expect((made.valid[i / 8] >> (i % 8) & 1) == (values[i] ? 1 : 0), "a decoded null");
  }
  expect(made.nulls == nulls && made.valid.empty() == (nulls == 0), "the number of nulls");
}

void check(const ValueTable& table, const Model& model) {
  expect(table.size() == model.size(), "how many values there are");
  for (ValueKind kind = 0; kind < 3; ++kind) {
    Values values = {std::nullopt, "never stored"};
    std::vector<Word> wanted = {ValueTable::kNull, ValueTable::kUnknown};
    for (const auto& [key, use] : model) {
      if (key.first != kind) continue;
      values.emplace_back(key.second);
      wanted.push_back(use.id);
      expect(table.has(use.id, kind), "a value's kind");
      expect(table.uses(static_cast<std::size_t>(use.id)) == use.uses, "the uses of a value");
    }
    std::vector<Word> ids(values.size());
    table.lookup(kind, ArrowValues(values, wanted.size() % 11, kind == 1).column, ids.data());
    expect(ids == wanted, "the ids of values");
    ids.erase(ids.begin() + 1);
    values.erase(values.begin() + 1);
    check_decoded<std::int32_t>(table, kind, ids, values);
    check_decoded<std::int64_t>(table, kind, ids, values);
  }
}

// The same values in a new table.
std::unique_ptr<ValueTable> reloaded(const Model& model) {
  auto made = std::make_unique<ValueTable>();
  for (ValueKind kind = 0; kind < 3; ++kind) {
    Values values;
    std::vector<Word> ids, uses;
    for (const auto& [key, use] : model) {
      if (key.first != kind) continue;
      values.emplace_back(key.second);
      ids.push_back(use.id);
      uses.push_back(use.uses);
    }
    const ArrowValues stored(values, 0, true);
    made->load(kind, stored.column, ids.data(), uses.data());
    if (ids.empty()) continue;
    expect_refused<std::invalid_argument>("values are loaded twice", [&] {
      made->load(kind, stored.column, ids.data(), uses.data());
    });
  }
  made->finish_loading();
  return made;
}

void fuzz_values(unsigned seed) {
  std::mt19937_64 random(seed);
  const auto below = [&](std::uint64_t n) { return random() % n; };
  const std::uint64_t distinct = 1 + below(400);
  const auto some_value = [&]() {
    const std::uint64_t number = below(distinct);
    std::string value(number % 5 == 0 ? number * 3 : number % 23, static_cast<char>(number % 3));
    return value + std::to_string(number).substr(0, number % 4);
  };
  auto table = std::make_unique<ValueTable>();
  Model model;
  for (int step = 0; step < 150; ++step) {
    const auto kind = static_cast<ValueKind>(below(3));
    Values values(below(80));
    for (auto& value : values) {
      if (below(9) != 0) value = some_value();
    }
    std::vector<Word> ids(values.size()), counts(values.size());
    for (Word& count : counts) count = static_cast<Word>(below(4));
    const bool counted = below(2) == 0;
    const auto count = [&](std::size_t i) { return counted ? counts[i] : 1; };
    allocations_left = below(3) == 0 ? static_cast<long>(below(60)) : -1;
    const ArrowValues stored(values, below(20), below(2) == 0);
    bool failed = false;
    try {
      table->encode(kind, stored.column, ids.data());
    } catch (const std::bad_alloc&) {
      failed = true;
    }
    allocations_left = -1;
    if (!failed) {
      for (std::size_t i = 0; i < values.size(); ++i) {
        expect(values[i] || ids[i] == ValueTable::kNull, "a null's id");
        if (values[i]) model.try_emplace({kind, *values[i]}, Use{ids[i], 0});
      }
      table->retain(ids.data(), counted ? counts.data() : nullptr, ids.size());
      for (std::size_t i = 0; i < values.size(); ++i) {
        if (values[i]) model[{kind, *values[i]}].uses += count(i);
      }
    }
    check(*table, model);
    const bool all = below(8) == 0;
    std::vector<Word> gone, losses;
    for (auto& [key, use] : model) {  // In up to two pieces: an id may occur more than once in a call.
      if (!all && below(2) == 0) continue;
      const Word part = static_cast<Word>(below(static_cast<std::uint64_t>(use.uses) + 1));
      gone.insert(gone.end(), {use.id, ValueTable::kNull, use.id});
      losses.insert(losses.end(), {part, 7, all ? use.uses - part : 0});
    }
    if (!gone.empty()) {
      losses[0] += 1'000'000;
      expect_refused<std::invalid_argument>("more is released than there is", [&] {
        table->release(gone.data(), losses.data(), gone.size());
      });
      losses[0] -= 1'000'000;
      const Word many = std::numeric_limits<Word>::max(), often[] = {gone[0], ValueTable::kNull, gone[0], gone[0]};
      const Word too_many[] = {1, 1, many, many}, too_few[] = {1, 1, -many, -many};
      using Beyond = std::overflow_error;
      using Lacking = std::invalid_argument;
      expect_refused<Beyond>("a count leaves 64 bits", [&] { table->retain(often, too_many, 4); });
      expect_refused<Beyond>("a changed count leaves 64 bits", [&] { table->count(often, too_many, 4); });
      expect_refused<Lacking>("far more is released than there is", [&] { table->release(often, too_many, 4); });
      expect_refused<Lacking>("far more is counted out than there is", [&] { table->count(often, too_few, 4); });
      check(*table, model);
    }
    allocations_left = 0;  // Releasing and collecting need no memory.
    if (below(2) == 0) {
      table->release(gone.data(), losses.data(), gone.size());
    } else {
      std::vector<Word> changes;
      for (const Word loss : losses) changes.push_back(-loss);
      table->count(gone.data(), changes.data(), gone.size());
    }
    for (std::size_t i = 0; i < gone.size(); ++i) {
      for (auto& [key, use] : model) {
        if (use.id == gone[i]) use.uses -= losses[i];
      }
    }
    if (below(3) == 0) {
      expect(table->collect() == std::erase_if(model, [](const auto& item) { return item.second.uses == 0; }),
             "how many values are collected");
    }
    allocations_left = -1;
    check(*table, model);
    if (below(20) == 0) table = reloaded(model);
    if (below(20) == 0) {
      std::vector<Word> uses(table->ids_end() / 2, 1);
      table->set_uses(uses.data(), uses.size());
      for (auto& [key, use] : model) use.uses = static_cast<std::size_t>(use.id) < uses.size() ? 1 : 0;
    }
    check(*table, model);
    const Word wrong[] = {ValueTable::kNull, static_cast<Word>(table->ids_end())};
    expect_refused<std::out_of_range>("an id that is not there is retained",
                                      [&] { table->retain(wrong, nullptr, 2); });
  }
  table->set_uses(nullptr, 0);
  expect(table->collect() == model.size(), "how many values are collected at last");
  expect(table->nbytes() == ValueTable().nbytes(), "memory is left");
}

}  // namespace

int main() {
  reallocate = reallocate_or_fail;
  for (unsigned seed = 0; seed < 40; ++seed) fuzz_values(seed);
  std::puts("value_fuzz: 40 random runs, nothing wrong");
}

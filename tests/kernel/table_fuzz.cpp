// The table at random against std::map, under the sanitizers and with memory that runs out: `make test-asan`.
// An operation that throws, for whatever reason, must leave the table as it was.
#include <cstdio>
#include <cstdlib>
#include <map>
#include <random>

#include "../../src/everview/kernel/cpp/table.h"

namespace {
long allocations_left = -1;  // Counts down to a failure while positive; negative: memory never runs out.
}

void* operator new(std::size_t bytes) {
  if (allocations_left == 0) throw std::bad_alloc();
  if (allocations_left > 0) --allocations_left;
  if (void* memory = std::malloc(bytes)) return memory;
  throw std::bad_alloc();
}
void operator delete(void* memory) noexcept { std::free(memory); }
void operator delete(void* memory, std::size_t) noexcept { std::free(memory); }

namespace {

using namespace everview;
using Key = std::vector<Word>;

void expect(bool holds, const char* what) {
  if (holds) return;
  std::fprintf(stderr, "table_fuzz: %s\n", what);
  std::abort();
}

void check(const Table& table, const std::map<Key, std::int64_t>& model) {
  expect(table.size() == model.size(), "the number of rows differs");
  Table::Total total = 0;
  std::vector<std::map<Key, std::size_t>> groups(table.index_count());
  for (const auto& [key, count] : model) {
    const Row row = table.find(key.data());
    expect(row != kNoRow && table.count(row) == count, "a row's multiplicity differs");
    total += static_cast<Table::Total>(count);
    for (std::size_t i = 0; i < groups.size(); ++i) {
      Key part;
      for (const std::uint32_t column : table.index(i).columns()) part.push_back(key[column]);
      ++groups[i][part];
    }
  }
  expect(table.total() == total, "the total differs");
  for (std::size_t i = 0; i < groups.size(); ++i) {
    expect(table.index(i).size() == groups[i].size(), "the number of groups differs");
    for (const auto& [key, size] : groups[i]) {
      const std::span<const Row> group = table.group(i, key.data());
      expect(group.size() == size, "a group's size differs");
      for (const Row row : group) {
        for (std::size_t c = 0; c < key.size(); ++c) {
          expect(table.words(row)[table.index(i).columns()[c]] == key[c], "a row is in the wrong group");
        }
      }
    }
  }
}

void run(unsigned seed) {
  std::mt19937_64 random(seed);
  const auto below = [&](std::uint64_t n) { return random() % n; };
  const std::size_t width = below(5);
  const std::uint64_t spread = 1 + below(4000);
  Table table(width);
  std::map<Key, std::int64_t> model;
  for (int phase = 0; phase < 8; ++phase) {
    const std::uint64_t removals = phase % 2 == 0 ? 20 : 90;  // Of 100 changes; grows and shrinks in turn.
    if (width > 0 && below(2) == 0) {
      std::vector<std::uint32_t> columns;
      for (std::uint32_t c = 0; c < width; ++c) {
        if (below(2) == 0) columns.push_back(c);
      }
      table.add_index(columns);
    }
    for (int step = 0; step < 1500; ++step) {
      Key key(width);
      for (Word& word : key) word = static_cast<Word>(below(1 + below(spread)));  // Small words most often.
      std::int64_t change = 1;
      if (below(100) < removals && !model.empty()) {
        auto found = model.lower_bound(key);
        if (found == model.end()) found = model.begin();
        key = found->first;
        change = below(3) == 0 ? -1 : -found->second;
      } else if (below(20) == 0) {
        change = static_cast<std::int64_t>(below(7)) - 3;
      }
      const auto found = model.find(key);
      const std::int64_t after = (found == model.end() ? 0 : found->second) + change;
      if (below(10) == 0) allocations_left = static_cast<long>(below(4));
      try {
        const std::int64_t told = table.add(key.data(), change);
        allocations_left = -1;
        expect(told == after && after >= 0, "add told another multiplicity");
        if (after == 0) {
          model.erase(key);
        } else {
          model[key] = after;
        }
      } catch (const OverDelete&) {
        allocations_left = -1;
        expect(after < 0, "a removal was refused");
      } catch (const std::bad_alloc&) {
        const bool injected = allocations_left == 0;
        allocations_left = -1;
        expect(injected, "memory ran out by itself");
        check(table, model);
      }
      if (step % 100 == 0) check(table, model);
    }
  }
  while (!model.empty()) {
    table.add(model.begin()->first.data(), -model.begin()->second);
    model.erase(model.begin());
  }
  check(table, model);
  expect(table.nbytes() <= 2048 + 1536 * table.index_count(), "an emptied table keeps its memory");
}

}  // namespace

int main(int argc, char** argv) {
  const unsigned runs = argc > 1 ? static_cast<unsigned>(std::atoi(argv[1])) : 60;
  for (unsigned seed = 0; seed < runs; ++seed) run(seed);
  std::printf("table_fuzz: %u passed, 0 failed\n", runs);
}

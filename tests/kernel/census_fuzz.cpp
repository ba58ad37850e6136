// The census at random beside brute force, under the sanitizers and with memory that runs out: `make test-asan`.
#include <new>
#include <random>
#include <set>

#include "../../src/everview/kernel/cpp/census/census.h"
#include "fuzz.h"

void* operator new(std::size_t bytes) {
  void* const memory = reallocate_or_fail(nullptr, bytes == 0 ? 1 : bytes);
  if (memory == nullptr) throw std::bad_alloc();
  return memory;
}
void* operator new(std::size_t bytes, const std::nothrow_t&) noexcept {
  return reallocate_or_fail(nullptr, bytes == 0 ? 1 : bytes);
}
void operator delete(void* memory) noexcept { std::free(memory); }
void operator delete(void* memory, std::size_t) noexcept { std::free(memory); }

namespace {

using namespace everview::census;
using Random = std::mt19937_64;
using Tuple = std::vector<Word>;
using Rowset = std::set<Tuple>;

constexpr std::size_t kDegree = 3;
constexpr std::size_t kMostRadius = 4;

std::size_t below(Random& random, std::size_t most) { return static_cast<std::size_t>(random() % most); }

// Random formulas over B/1, E/2 and T/3; every guarded quantifier has an edge in it.
class Writer {
 public:
  Writer(Random& random, std::size_t arity) : random_(random) {
    program.relations = {{1, true, true}, {2, true, true}, {3, true, true}, {2, false, true}};
    program.arity = program.slots = arity;
    program.degree = kDegree;
    program.most_steps = 10'000'000;
    program.idle_types = 16;
    std::vector<std::size_t> free(arity);
    std::iota(free.begin(), free.end(), std::size_t{0});
    formula(free, 2);
    std::set<std::size_t> radii;
    for (const Node& node : program.nodes) {
      if (node.is_closed()) program.sentences.push_back(node.number);
      if (node.kind != Node::Kind::kQuantify || node.is_guarded) continue;
      const Node& body = program.nodes[node.parts[0]];
      if (!node.is_closed() || !body.is_local()) radii.insert(body.radius);
    }
    if (arity > 1 || (arity == 1 && !program.formula().is_local())) radii.insert(program.radius());
    program.typed_radii.assign(radii.begin(), radii.end());
    program.type_limits.assign(radii.size(), below(random, 8) == 0 ? 3 : 50'000);
  }

  bool is_small() const {
    return program.radius() <= kMostRadius && (program.typed_radii.empty() || program.typed_radii.back() <= kMostRadius);
  }

  Program program;

 private:
  using Kind = Node::Kind;

  std::size_t add(Node node) {
    node.number = program.nodes.size();
    std::set<std::size_t> free(node.slots.begin(), node.slots.end());
    for (const std::size_t part : node.parts) {
      const Node& inner = program.nodes[part];
      free.insert(inner.free.begin(), inner.free.end());
      node.radius = std::max(node.radius, inner.radius);
      node.sentences |= inner.sentences;
      node.counts_far |= inner.counts_far;
    }
    if (node.kind == Kind::kNear) node.radius = (node.bound + 1) / 2;
    if (node.kind == Kind::kQuantify) {
      free.erase(node.slot);
      if (free.empty()) {
        node.sentence = sentences_++;
        node.sentences = std::uint64_t{1} << node.sentence;
        node.radius = 0;
        node.counts_far = node.is_guarded = false;
      } else if (node.is_guarded) {
        node.radius += node.distance;
      } else {
        node.radius = 3 * node.radius + 1;
        node.counts_far = true;
      }
    }
    node.free.assign(free.begin(), free.end());
    program.nodes.push_back(node);
    return node.number;
  }

  Node node(Kind kind) {
    Node made{};
    made.kind = kind;
    return made;
  }

  std::size_t fact(std::size_t relation, std::vector<std::size_t> slots) {
    Node made = node(Kind::kFact);
    made.relation = relation;
    made.slots = std::move(slots);
    return add(made);
  }

  std::size_t join(Kind kind, std::vector<std::size_t> parts) {
    Node made = node(kind);
    made.parts = std::move(parts);
    return add(made);
  }

  std::size_t formula(const std::vector<std::size_t>& free, int rank) {
    const std::size_t kind = below(random_, 10);
    if (rank > 0 && kind < 5) {
      Node made = node(Kind::kQuantify);
      made.slot = program.slots++;
      made.is_guarded = !free.empty() && below(random_, 3) != 0;
      if (below(random_, 2) == 0) {
        made.least = 1 + below(random_, 3);
      } else {
        made.modulus = 2 + below(random_, 2);
        made.residue = below(random_, made.modulus);
      }
      std::vector<std::size_t> inner = free;
      inner.push_back(made.slot);
      std::vector<std::size_t> parts;
      if (made.is_guarded) {
        made.guard = free[below(random_, free.size())];
        made.distance = 1;
        parts.push_back(below(random_, 2) == 0 ? fact(1, {made.guard, made.slot}) : fact(1, {made.slot, made.guard}));
      }
      parts.push_back(formula(inner, rank - 1));
      made.parts = {join(Kind::kAnd, parts)};
      return add(made);
    }
    if (kind == 5) return join(Kind::kNot, {formula(free, rank)});
    if (kind == 6 || kind == 7) {
      const std::size_t one = formula(free, rank), other = formula(free, rank);
      return join(kind == 6 ? Kind::kAnd : Kind::kOr, {one, other});
    }
    return atom(free);
  }

  std::size_t atom(const std::vector<std::size_t>& free) {
    const auto any = [&] { return free[below(random_, free.size())]; };
    const std::size_t kind = free.empty() ? 9 : below(random_, 9);
    if (kind == 9) {
      Node made = node(Kind::kTruth);
      made.value = below(random_, 2) == 0;
      return add(made);
    }
    if (kind < 2) {
      Node made = node(kind == 0 ? Kind::kEqual : Kind::kNear);
      made.slots = {any(), any()};
      made.bound = kind == 0 ? 0 : below(random_, 4);
      return add(made);
    }
    if (kind < 5) return fact(0, {any()});
    if (kind < 8) return fact(1, {any(), any()});
    return fact(2, {any(), any(), any()});
  }

  Random& random_;
  std::size_t sentences_ = 0;
};

// What a formula means, by trying all elements.
class Model {
 public:
  explicit Model(const Program& program) : program_(program) {}

  void change(std::size_t relation, const Tuple& row, int weight) {
    weight > 0 ? (void)facts.insert({relation, row}) : (void)facts.erase({relation, row});
  }
  std::set<Word> domain() const {
    std::set<Word> elements;
    for (const auto& [relation, row] : facts) elements.insert(row.begin(), row.end());
    return elements;
  }
  std::map<Word, std::set<Word>> neighbours() const {
    std::map<Word, std::set<Word>> found;
    for (const auto& [relation, row] : facts) {
      if (!program_.relations[relation].has_edges) continue;
      for (const Word a : row) {
        for (const Word b : row) {
          if (a != b) found[a].insert(b);
        }
      }
    }
    return found;
  }
  bool fits() const {
    for (const auto& [a, near] : neighbours()) {
      if (near.size() > kDegree) return false;
    }
    return true;
  }
  Rowset answers() const {
    const std::set<Word> all = domain();
    const auto edges = neighbours();
    Rowset rows;
    Tuple env(program_.slots, 0);
    fill(0, all, edges, env, rows);
    return rows;
  }

  std::set<std::pair<std::size_t, Tuple>> facts;

 private:
  using Edges = std::map<Word, std::set<Word>>;

  void fill(std::size_t slot, const std::set<Word>& all, const Edges& edges, Tuple& env, Rowset& rows) const {
    if (slot == program_.arity) {
      if (holds(program_.formula(), all, edges, env)) rows.insert(Tuple(env.begin(), env.begin() + static_cast<long>(slot)));
      return;
    }
    for (const Word a : all) {
      env[slot] = a;
      fill(slot + 1, all, edges, env, rows);
    }
  }

  bool holds(const Node& node, const std::set<Word>& all, const Edges& edges, Tuple& env) const {
    const auto part = [&](std::size_t i) { return holds(program_.nodes[node.parts[i]], all, edges, env); };
    switch (node.kind) {
      case Node::Kind::kFact: {
        Tuple row;
        for (const std::size_t slot : node.slots) row.push_back(env[slot]);
        return facts.contains({node.relation, row});
      }
      case Node::Kind::kEqual:
        return env[node.slots[0]] == env[node.slots[1]];
      case Node::Kind::kNear: {
        std::set<Word> seen{env[node.slots[0]]};
        for (std::size_t i = 0; i < node.bound; ++i) {
          const std::set<Word> before = seen;
          for (const Word a : before) {
            if (const auto near = edges.find(a); near != edges.end()) seen.insert(near->second.begin(), near->second.end());
          }
        }
        return seen.contains(env[node.slots[1]]);
      }
      case Node::Kind::kTruth:
        return node.value;
      case Node::Kind::kNot:
        return !part(0);
      case Node::Kind::kAnd:
        for (std::size_t i = 0; i < node.parts.size(); ++i) {
          if (!part(i)) return false;
        }
        return true;
      case Node::Kind::kOr:
        for (std::size_t i = 0; i < node.parts.size(); ++i) {
          if (part(i)) return true;
        }
        return false;
      case Node::Kind::kQuantify:
        break;
    }
    std::uint64_t total = 0;
    for (const Word a : all) {
      env[node.slot] = a;
      total += part(0);
    }
    return node.is_met(total);
  }

  const Program& program_;
};

Rowset listed(Upkeep& upkeep, const std::vector<Vertex>& prefix) {
  Listing listing(upkeep.evaluator(), upkeep.result(), prefix);
  Rows rows = listing.rows();
  Rowset found;
  while (rows.next()) {
    Tuple row;
    for (std::size_t i = 0; i < upkeep.program().arity; ++i) row.push_back(upkeep.storage().element(rows.row()[i]));
    expect(found.insert(row).second, "a row is listed twice");
  }
  return found;
}

void compare(Upkeep& upkeep, const Model& model, Rowset& told) {
  const Rowset expected = model.answers();
  expect(listed(upkeep, {}) == expected, "the rows differ from brute force");
  const std::size_t arity = upkeep.program().arity;
  const auto test = [&](const Tuple& row) {
    Row vertices{};
    for (std::size_t i = 0; i < arity; ++i) {
      vertices[i] = upkeep.storage().find(row[i]);
      if (vertices[i] == kNoVertex || !upkeep.storage().in_domain(vertices[i])) return false;
    }
    return upkeep.result().test(vertices);
  };
  for (const Tuple& row : expected) expect(test(row), "a row is not found");
  Random random(expected.size());
  for (int i = 0; i < 10; ++i) {
    Tuple row;
    for (std::size_t c = 0; c < arity; ++c) row.push_back(static_cast<Word>(below(random, 10)));
    expect(test(row) == expected.contains(row), "a test differs from brute force");
  }
  for (const Word first : arity > 1 ? model.domain() : std::set<Word>()) {
    Rowset found;
    for (const Tuple& row : expected) {
      if (row[0] == first) found.insert(row);
    }
    expect(listed(upkeep, {upkeep.storage().find(first)}) == found, "the rows with a prefix differ");
  }
  if (arity > 2) return;
  expect(upkeep.result().count() == expected.size(), "the count differs");
  upkeep.result().take_changes([&](const Row& row, bool came) {
    Tuple tuple;
    for (std::size_t i = 0; i < arity; ++i) tuple.push_back(upkeep.storage().element(row[i]));
    expect(came ? told.insert(tuple).second : told.erase(tuple) == 1, "a difference is told that is none");
  });
  expect(told == expected, "the differences do not add up");
}

// One update more or less, as a change of the model.
std::tuple<std::size_t, Tuple, Word> update_of(Random& random, Model& model) {
  if (!model.facts.empty() && below(random, 5) < 2) {
    auto fact = model.facts.begin();
    std::advance(fact, static_cast<long>(below(random, model.facts.size())));
    const auto [relation, row] = *fact;
    model.change(relation, row, -1);
    return {relation, row, -1};
  }
  const std::size_t relation = below(random, 4);
  const std::size_t arities[] = {1, 2, 3, 2};
  Tuple row;
  for (std::size_t i = 0; i < arities[relation]; ++i) row.push_back(static_cast<Word>(below(random, 8)));
  if (model.facts.contains({relation, row})) return {relation, row, 0};
  model.change(relation, row, 1);
  return {relation, row, 1};
}

void run(std::uint64_t seed, bool memory_fails) {
  Random random(seed);
  const std::size_t arity = below(random, 4);
  Writer writer(random, arity);
  if (!writer.is_small()) return;
  std::size_t bytes = 0;
  {
    const Use use(bytes);
    auto upkeep = std::make_unique<Upkeep>(writer.program);
    if (arity <= 2) upkeep->tell(true);
    Model model(writer.program);
    Rowset told;
    if (arity == 0) told = model.answers();
    for (int batch = 0; batch < 8; ++batch) {
      Model after = model;
      upkeep->begin();
      for (std::size_t i = 0, updates = 1 + below(random, 4); i < updates; ++i) {
        const auto [relation, row, weight] = update_of(random, after);
        upkeep->apply(relation, row.data(), weight);
      }
      const bool fits = after.fits();
      if (memory_fails) allocations_left = static_cast<long>(below(random, 400));
      bool is_taken = false;
      try {
        upkeep->settle();
        is_taken = true;
        expect(fits, "a degree is too high");
      } catch (const DegreeFault&) {
        expect(!fits, "a degree is refused that is none too many");
        bool again = false;
        try {
          upkeep->settle();
        } catch (const DegreeFault&) {
          again = true;
        } catch (const std::bad_alloc&) {
          allocations_left = -1;  // Or the next case would have no memory to begin with.
          return;
        }
        expect(again, "what was refused is no longer pending");
      } catch (const LimitFault&) {
        is_taken = true;
      } catch (const std::bad_alloc&) {
        allocations_left = -1;
        expect(upkeep->is_broken(), "memory ran out, and nothing says so");
        return;
      }
      allocations_left = -1;
      if (is_taken && below(random, 5) == 0) {
        upkeep->roll_back();
        is_taken = false;
      }
      upkeep->commit();
      if (is_taken) model.facts = after.facts;
      if (!upkeep->fault()) compare(*upkeep, model, told);
    }
    if (upkeep->fault()) {
      try {
        upkeep->resume();
        told = model.answers();
        compare(*upkeep, model, told);
      } catch (const LimitFault&) {
      }
    }
    if (!upkeep->fault() && upkeep->storage().fact_count() > 0) {
      Upkeep anew(writer.program);
      for (const auto& [relation, row] : model.facts) anew.apply(relation, row.data(), 1);
      anew.settle();
      for (const auto& [radius, census] : upkeep->evaluator().censuses()) {
        expect(census.members().size() == anew.evaluator().census(radius).members().size(), "the types differ");
      }
    }
  }
  expect(bytes == 0, "bytes are not accounted for");
}

}  // namespace

int main(int count, char** arguments) {
  const std::uint64_t seeds = count > 1 ? std::strtoull(arguments[1], nullptr, 10) : 600;
  for (std::uint64_t seed = 0; seed < seeds; ++seed) run(seed, seed % 4 == 3);
  std::puts("the census is as brute force has it");
}

// The live facts, counted by their rows, the domain, and who is near whom.
#pragma once

#include <numeric>

#include "structure.h"

namespace everview::census {

// Numbers of elements: a hash table with linear probing.
class Numbers {
 public:
  Vertex find(Word element) const noexcept {
    if (slots_.empty()) return kNoVertex;
    for (std::size_t i = home(element);; i = next(i)) {
      if (slots_[i].vertex == kNoVertex) return kNoVertex;
      if (slots_[i].element == element) return slots_[i].vertex;
    }
  }

  // Makes room for one more, so that `put` cannot fail.
  void make_room() {
    if (2 * (size_ + 1) <= slots_.size()) return;
    Vector<Slot> old(std::max<std::size_t>(16, 2 * slots_.size()));
    old.swap(slots_);
    for (const Slot& slot : old) {
      if (slot.vertex != kNoVertex) place(slot);
    }
  }
  void put(Word element, Vertex vertex) noexcept {
    place({element, vertex});
    ++size_;
  }

  void erase(Word element) noexcept {
    std::size_t hole = home(element);
    while (slots_[hole].element != element || slots_[hole].vertex == kNoVertex) hole = next(hole);
    for (std::size_t i = next(hole); slots_[i].vertex != kNoVertex; i = next(i)) {
      const std::size_t wanted = home(slots_[i].element);
      const bool stays = hole <= i ? hole < wanted && wanted <= i : hole < wanted || wanted <= i;
      if (stays) continue;
      slots_[hole] = slots_[i];
      hole = i;
    }
    slots_[hole].vertex = kNoVertex;
    --size_;
  }

 private:
  struct Slot {
    Word element = 0;
    Vertex vertex = kNoVertex;
  };

  std::size_t home(Word element) const noexcept {
    return mix(static_cast<std::uint64_t>(element)) & (slots_.size() - 1);
  }
  std::size_t next(std::size_t i) const noexcept { return (i + 1) & (slots_.size() - 1); }
  void place(const Slot& slot) noexcept {
    std::size_t i = home(slot.element);
    while (slots_[i].vertex != kNoVertex) i = next(i);
    slots_[i] = slot;
  }

  Vector<Slot> slots_;
  std::size_t size_ = 0;
};

// Rows of relations with changes of their copies. `net` leaves each row once.
class Changes {
 public:
  struct Change {
    std::uint32_t relation;
    std::size_t first;
    Word weight;
  };

  explicit Changes(const std::vector<Relation>& relations) : relations_(&relations) {}

  void add(std::size_t relation, const Word* row, Word weight) {
    if (weight == 0) return;
    words_.insert(words_.end(), row, row + (*relations_)[relation].arity);
    changes_.push_back({static_cast<std::uint32_t>(relation), words_.size() - (*relations_)[relation].arity, weight});
  }
  // Keeps little of the memory: a batch may have had all rows.
  void clear() noexcept {
    if (changes_.capacity() > kMostKept) Vector<Change>().swap(changes_);
    if (words_.capacity() > kMostKept) Vector<Word>().swap(words_);
    words_.clear();
    changes_.clear();
  }
  bool empty() const noexcept { return changes_.empty(); }
  const Vector<Change>& all() const noexcept { return changes_; }
  const Word* row(const Change& change) const noexcept { return words_.data() + change.first; }

  void negate() noexcept {
    for (Change& change : changes_) change.weight = -change.weight;
  }

  void net() {
    if (changes_.size() < 2) return;
    std::ranges::sort(changes_, [&](const Change& a, const Change& b) { return compare(a, b) < 0; });
    std::size_t kept = 0;
    for (std::size_t i = 0; i < changes_.size();) {
      Change sum = changes_[i];
      for (++i; i < changes_.size() && compare(sum, changes_[i]) == 0; ++i) {
        if (__builtin_add_overflow(sum.weight, changes_[i].weight, &sum.weight)) {
          throw std::overflow_error("a row changes by too many copies");
        }
      }
      if (sum.weight != 0) changes_[kept++] = sum;
    }
    changes_.resize(kept);
  }

 private:
  static constexpr std::size_t kMostKept = 4096;

  int compare(const Change& a, const Change& b) const noexcept {
    if (a.relation != b.relation) return a.relation < b.relation ? -1 : 1;
    const std::size_t arity = (*relations_)[a.relation].arity;
    const Word *x = row(a), *y = row(b);
    for (std::size_t i = 0; i < arity; ++i) {
      if (x[i] != y[i]) return x[i] < y[i] ? -1 : 1;
    }
    return 0;
  }

  const std::vector<Relation>* relations_;
  Vector<Word> words_;
  Vector<Change> changes_;
};

class Storage {
 public:
  static constexpr std::uint32_t kNoFact = ~std::uint32_t{0};

  Storage(const Program& program, std::size_t reach, Steps& steps)
      : program_(&program), reach_(reach), steps_(&steps) {
    for (const Relation& relation : program.relations) stride_ = std::max(stride_, relation.arity);
  }

  // --- what there is ---

  std::size_t vertices() const noexcept { return vertices_.size(); }
  Word element(Vertex v) const noexcept { return vertices_[v].element; }
  Vertex find(Word element) const noexcept { return numbers_.find(element); }
  bool in_domain(Vertex v) const noexcept { return vertices_[v].uses != 0; }
  std::size_t domain_size() const noexcept { return domain_size_; }
  std::size_t fact_count() const noexcept { return fact_count_; }
  std::size_t degree(Vertex v) const noexcept { return vertices_[v].adjacent.size(); }

  std::size_t max_degree() const noexcept {
    std::size_t most = degrees_.size();
    while (most != 0 && degrees_[most - 1] == 0) --most;
    return most;
  }

  bool has(std::size_t relation, std::span<const Vertex> row) const noexcept {
    return find_fact(relation, row) != kNoFact;
  }

  // Breadth first from all centres; stays valid until the next one.
  void ball(std::span<const Vertex> centres, std::size_t radius, Steps& steps, Ball& out) const {
    out.clear();
    new_round();
    for (const Vertex c : centres) {
      if (see(c)) out.push_back({c, 0});
    }
    for (std::size_t i = 0; i < out.size() && out[i].distance < radius; ++i) {
      const At at = out[i];
      const auto& adjacent = vertices_[at.vertex].adjacent;
      steps.take(adjacent.size());
      for (const Neighbour& b : adjacent) {
        if (see(b.vertex)) out.push_back({b.vertex, at.distance + 1});
      }
    }
    steps.take(out.size());
  }

  // A copy of what is so near to the centres.
  Structure neighbourhood(std::span<const Vertex> centres, std::size_t radius) const {
    Ball near;
    ball(centres, radius, *steps_, near);
    for (std::size_t i = 0; i < near.size(); ++i) local_[near[i].vertex] = static_cast<Vertex>(i);
    Structure made;
    made.resize(near.size());
    for (const At& at : near) {
      const auto& incident = vertices_[at.vertex].incident;
      steps_->take(incident.size());
      for (const std::uint32_t fact : incident) {
        const Vertex* const row = elements(fact);
        if (row[0] != at.vertex) continue;
        const std::size_t arity = program_->relations[facts_[fact].relation].arity;
        bool inside = true;
        for (std::size_t i = 0; i < arity; ++i) inside = inside && seen_[row[i]] == round_;
        if (inside) made.add(facts_[fact].relation, arity, [&](std::size_t i) { return local_[row[i]]; });
      }
    }
    for (const Vertex c : centres) made.add_centre(local_[c]);
    made.link();
    return made;
  }

  // --- changes ---

  // How near elements have been to facts that came or went, in the data that have the fact: only they can change types.
  Ball near_change() const {
    Ball near;
    for (const Vertex v : near_change_) near.push_back({v, vertices_[v].near});
    return near;
  }
  void forget_near_change() noexcept {
    for (const Vertex v : near_change_) vertices_[v].near = kFar;
    if (near_change_.capacity() > kMostKept) Vector<Vertex>().swap(near_change_);
    near_change_.clear();
  }
  void all_near_change() {
    forget_near_change();
    for (Vertex v = 0; v < vertices_.size(); ++v) {
      if (in_domain(v)) note({v, 0});
    }
  }

  // Applies net changes, all or none, and gives how many facts came or went.
  std::size_t take(const Changes& changes, bool judged) {
    number_elements(changes);
    std::vector<Planned> going, coming;
    plan(changes, going, coming);
    std::vector<Vertex> touched;
    collect(going, touched);
    Ball before;
    ball(touched, reach_, *steps_, before);
    Vector<At> moved;
    change_domain(changes, going, coming, moved, false);
    for (const Planned& fact : going) remove(fact);
    for (std::size_t done = 0; done < coming.size(); ++done) {
      add(coming[done]);
      const Vertex over = judged ? over_degree(coming[done]) : kNoVertex;
      if (over == kNoVertex) continue;
      const DegreeFault fault{element(over), degree(over)};
      for (std::size_t i = 0; i <= done; ++i) remove(coming[i]);
      for (const Planned& fact : going) add(fact);
      change_domain(changes, going, coming, moved, true);
      throw fault;
    }
    for (const Changes::Change& change : changes.all()) {
      if (!program_->relations[change.relation].has_edges) continue;
      row_of(change, changes);
      const std::uint32_t fact = find_fact(change.relation, row_);
      if (fact != kNoFact) facts_[fact].copies += change.weight;
    }
    for (const At& at : before) note(at);
    for (const At& at : moved) note(at);
    touched.clear();
    collect(coming, touched);
    ball(touched, reach_, *steps_, before);
    for (const At& at : before) note(at);
    return going.size() + coming.size();
  }

  // Gives up the numbers of elements that are in no fact and not in the domain, so that new ones can have them.
  void free_numbers() noexcept {
    for (const Vertex v : maybe_free_) {
      Entry& entry = vertices_[v];
      entry.is_listed = false;
      if (!entry.is_used || entry.uses != 0 || !entry.incident.empty() || entry.near != kFar) continue;
      numbers_.erase(entry.element);
      entry.is_used = false;
      free_.push_back(v);  // There is room: see `number_elements`.
    }
    if (maybe_free_.capacity() > kMostKept) Vector<Vertex>().swap(maybe_free_);
    maybe_free_.clear();
  }

 private:
  struct Neighbour {
    Vertex vertex;
    std::uint32_t facts;
  };
  static constexpr std::uint32_t kFar = ~std::uint32_t{0};
  static constexpr std::size_t kMostKept = 4096;
  struct Entry {
    Word element = 0;
    std::uint64_t uses = 0;
    Vector<std::uint32_t> incident;
    Vector<Neighbour> adjacent;
    std::uint32_t near = kFar;
    bool is_used = false;
    bool is_listed = false;  // In `maybe_free_`.
  };
  struct FactEntry {
    std::uint32_t relation;
    Word copies;
  };
  struct Planned {
    std::uint32_t relation;
    std::vector<Vertex> row;
    Word copies;  // Before.
  };

  const Vertex* elements(std::uint32_t fact) const noexcept { return rows_.data() + fact * stride_; }

  std::uint32_t find_fact(std::size_t relation, std::span<const Vertex> row) const noexcept {
    Vertex fewest = row[0];
    for (const Vertex v : row) {
      if (vertices_[v].incident.size() < vertices_[fewest].incident.size()) fewest = v;
    }
    for (const std::uint32_t fact : vertices_[fewest].incident) {
      if (facts_[fact].relation == relation && std::equal(row.begin(), row.end(), elements(fact))) return fact;
    }
    return kNoFact;
  }

  void new_round() const noexcept {
    if (++round_ == 0) {
      std::ranges::fill(seen_, 0u);
      round_ = 1;
    }
  }
  bool see(Vertex v) const noexcept {
    if (seen_[v] == round_) return false;
    seen_[v] = round_;
    return true;
  }

  void note(const At& at) {
    std::uint32_t& near = vertices_[at.vertex].near;
    if (near == kFar) near_change_.push_back(at.vertex);
    near = std::min(near, at.distance);
  }

  void number_elements(const Changes& changes) {
    for (const Changes::Change& change : changes.all()) {
      const Word* const row = changes.row(change);
      for (std::size_t i = 0; i < program_->relations[change.relation].arity; ++i) {
        if (numbers_.find(row[i]) != kNoVertex) continue;
        numbers_.make_room();
        Vertex v = static_cast<Vertex>(vertices_.size());
        if (!free_.empty()) {
          v = free_.back();
          free_.pop_back();
        } else {
          if (v == kNoVertex) throw std::length_error("there are too many elements");
          vertices_.emplace_back();
          seen_.resize(vertices_.capacity());
          local_.resize(vertices_.capacity());
          free_.reserve(vertices_.capacity());
        }
        vertices_[v].element = row[i];
        vertices_[v].is_used = true;
        list_free(v);
        numbers_.put(row[i], v);
      }
    }
  }

  void list_free(Vertex v) {
    if (vertices_[v].is_listed) return;
    maybe_free_.push_back(v);
    vertices_[v].is_listed = true;
  }

  void row_of(const Changes::Change& change, const Changes& changes) {
    row_.clear();
    const Word* const row = changes.row(change);
    for (std::size_t i = 0; i < program_->relations[change.relation].arity; ++i) row_.push_back(find(row[i]));
  }

  void plan(const Changes& changes, std::vector<Planned>& going, std::vector<Planned>& coming) {
    for (const Changes::Change& change : changes.all()) {
      row_of(change, changes);
      if (!program_->relations[change.relation].has_edges) continue;
      const std::uint32_t fact = find_fact(change.relation, row_);
      const Word before = fact == kNoFact ? 0 : facts_[fact].copies;
      Word after = 0;
      if (__builtin_add_overflow(before, change.weight, &after)) {
        throw std::overflow_error("a row has too many copies");
      }
      if (after < 0) throw std::invalid_argument("a row has not so many copies as are deleted");
      if (before == 0) coming.push_back({change.relation, row_, 0});
      if (after == 0) going.push_back({change.relation, row_, before});
    }
  }

  static void collect(const std::vector<Planned>& facts, std::vector<Vertex>& touched) {
    for (const Planned& fact : facts) touched.insert(touched.end(), fact.row.begin(), fact.row.end());
  }

  Vertex over_degree(const Planned& fact) const noexcept {
    for (const Vertex v : fact.row) {
      if (degree(v) > program_->degree) return v;
    }
    return kNoVertex;
  }

  // Says who has come into the domain or left it. Undone: what has been done is taken back, and nobody is named.
  void change_domain(const Changes& changes, const std::vector<Planned>& going, const std::vector<Planned>& coming,
                     Vector<At>& moved, bool undone) {
    domain_changes_.clear();
    for (const Changes::Change& change : changes.all()) {
      if (program_->relations[change.relation].has_edges) continue;
      row_of(change, changes);
      for (const Vertex v : row_) domain_changes_.emplace_back(v, change.weight);
    }
    for (const auto& [facts, sign] : {std::pair{&going, Word{-1}}, std::pair{&coming, Word{1}}}) {
      for (const Planned& fact : *facts) {
        if (!program_->relations[fact.relation].is_domain) continue;
        for (const Vertex v : fact.row) domain_changes_.emplace_back(v, sign);
      }
    }
    std::ranges::sort(domain_changes_, {}, &std::pair<Vertex, Word>::first);
    // Nothing is changed before it is known that all of it can be.
    for (const bool real : {false, true}) {
      for (std::size_t i = 0; i < domain_changes_.size();) {
        const Vertex v = domain_changes_[i].first;
        Word sum = 0;
        for (; i < domain_changes_.size() && domain_changes_[i].first == v; ++i) sum += domain_changes_[i].second;
        if (undone) sum = -sum;
        const Word after = static_cast<Word>(vertices_[v].uses) + sum;
        if (after < 0) throw std::invalid_argument("an element is in fewer rows than are deleted");
        if (!real) continue;
        const bool was = in_domain(v);
        vertices_[v].uses = static_cast<std::uint64_t>(after);
        if (was == in_domain(v)) continue;
        was ? --domain_size_ : ++domain_size_;
        if (!undone) moved.push_back({v, 0});
        if (was) list_free(v);
      }
    }
  }

  void add(const Planned& fact) {
    std::uint32_t number = static_cast<std::uint32_t>(facts_.size());
    if (!free_facts_.empty()) {
      number = free_facts_.back();
      free_facts_.pop_back();
    } else {
      facts_.push_back({});
      rows_.resize(rows_.size() + stride_);
      free_facts_.reserve(facts_.capacity());
    }
    facts_[number] = {fact.relation, fact.copies};
    std::ranges::copy(fact.row, rows_.begin() + static_cast<std::ptrdiff_t>(number * stride_));
    ++fact_count_;
    for_each_once(fact.row, [&](Vertex v) { vertices_[v].incident.push_back(number); });
    for_each_pair(fact.row, [&](Vertex a, Vertex b) {
      for (Neighbour& known : vertices_[a].adjacent) {
        if (known.vertex == b) {
          ++known.facts;
          return;
        }
      }
      auto& adjacent = vertices_[a].adjacent;
      if (degrees_.size() <= adjacent.size()) degrees_.resize(adjacent.size() + 1);
      adjacent.push_back({b, 1});
      if (adjacent.size() > 1) --degrees_[adjacent.size() - 2];
      ++degrees_[adjacent.size() - 1];
    });
  }

  void remove(const Planned& fact) {
    const std::uint32_t number = find_fact(fact.relation, fact.row);
    for_each_once(fact.row, [&](Vertex v) {
      auto& incident = vertices_[v].incident;
      *std::ranges::find(incident, number) = incident.back();
      incident.pop_back();
      if (incident.empty()) list_free(v);
    });
    for_each_pair(fact.row, [&](Vertex a, Vertex b) {
      auto& adjacent = vertices_[a].adjacent;
      const auto known = std::ranges::find(adjacent, b, &Neighbour::vertex);
      if (--known->facts != 0) return;
      *known = adjacent.back();
      --degrees_[adjacent.size() - 1];
      adjacent.pop_back();
      if (!adjacent.empty()) ++degrees_[adjacent.size() - 1];
    });
    free_facts_.push_back(number);
    --fact_count_;
  }

  template <class Visit>
  static void for_each_once(const std::vector<Vertex>& row, Visit&& visit) {
    for (auto i = row.begin(); i != row.end(); ++i) {
      if (std::find(row.begin(), i, *i) == i) visit(*i);
    }
  }
  // Each pair of different elements, both ways round, once.
  template <class Visit>
  static void for_each_pair(const std::vector<Vertex>& row, Visit&& visit) {
    for_each_once(row, [&](Vertex a) {
      for_each_once(row, [&](Vertex b) {
        if (a != b) visit(a, b);
      });
    });
  }

  const Program* program_;
  std::size_t reach_;
  std::size_t stride_ = 1;
  Steps* steps_;
  Numbers numbers_;
  Vector<Entry> vertices_;
  Vector<Vertex> free_, maybe_free_;
  Vector<FactEntry> facts_;
  Vector<Vertex> rows_;
  Vector<std::uint32_t> free_facts_;
  Vector<std::size_t> degrees_;  // How many elements have one neighbour, two, and so on.
  std::size_t fact_count_ = 0, domain_size_ = 0;
  Vector<Vertex> near_change_;
  std::vector<Vertex> row_;
  std::vector<std::pair<Vertex, Word>> domain_changes_;
  mutable Vector<std::uint32_t> seen_;
  mutable Vector<Vertex> local_;
  mutable std::uint32_t round_ = 0;
};

}  // namespace everview::census

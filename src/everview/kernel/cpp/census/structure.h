// A neighbourhood, copied: elements numbered from 0, facts, and of each element the facts it is in and its neighbours.
#pragma once

#include <algorithm>
#include <span>

#include "program.h"

namespace everview::census {

struct At {
  Vertex vertex;
  std::uint32_t distance;
};
using Ball = std::vector<At>;  // Nearest first.

// What the evaluator has found out about a structure that does not change.
struct Around {
  std::vector<Vertex> near;
  std::vector<std::pair<TypeId, std::size_t>> types;  // How many of them have which type, in order of types.
  TypeId base = kNoType;
};
struct NearTotal {
  std::uint64_t validity = 0;
  std::uint64_t total = 0;
};
using Place = Vector<std::uint32_t>;  // A node, or a radius, and elements.
struct Known {
  HashMap<Place, Around, VectorHash<std::uint32_t>> around;
  HashMap<Place, NearTotal, VectorHash<std::uint32_t>> totals;
  HashMap<Place, TypeId, VectorHash<std::uint32_t>> types;
};

class Structure {
 public:
  struct Fact {
    std::uint32_t relation;
    std::uint32_t first;  // Of its elements.
    std::uint32_t arity;
  };

  Structure() = default;
  Structure(Structure&&) = default;
  Structure& operator=(Structure&&) = default;

  std::size_t size() const noexcept { return size_; }
  const Vector<Vertex>& centres() const noexcept { return centres_; }
  const Vector<Fact>& facts() const noexcept { return facts_; }
  std::span<const Vertex> elements(const Fact& fact) const noexcept { return {&elements_[fact.first], fact.arity}; }
  std::span<const std::uint32_t> incident(Vertex v) const noexcept {
    return {incident_.data() + incident_begin_[v], incident_begin_[v + 1] - incident_begin_[v]};
  }
  std::span<const Vertex> adjacent(Vertex v) const noexcept {
    return {adjacent_.data() + adjacent_begin_[v], adjacent_begin_[v + 1] - adjacent_begin_[v]};
  }

  bool has(std::size_t relation, std::span<const Vertex> row) const noexcept {
    for (const std::uint32_t number : incident(row[0])) {
      const Fact& fact = facts_[number];
      if (fact.relation == relation && std::ranges::equal(elements(fact), row)) return true;
    }
    return false;
  }

  void ball(std::span<const Vertex> centres, std::size_t radius, Steps& steps, Ball& out) const {
    out.clear();
    std::vector<bool> seen(size_);
    for (const Vertex c : centres) {
      if (!seen[c]) out.push_back({c, 0});
      seen[c] = true;
    }
    for (std::size_t i = 0; i < out.size() && out[i].distance < radius; ++i) {
      const At at = out[i];
      steps.take(adjacent(at.vertex).size());
      for (const Vertex b : adjacent(at.vertex)) {
        if (seen[b]) continue;
        seen[b] = true;
        out.push_back({b, at.distance + 1});
      }
    }
    steps.take(out.size());
  }

  Known* known() {
    if (known_ == nullptr) known_ = std::make_unique<Known>();
    return known_.get();
  }
  void forget() noexcept { known_.reset(); }

  // A copy with these elements only, which are numbered in their order.
  Structure restricted(const Ball& kept, std::span<const Vertex> centres, Steps& steps) const {
    std::vector<Vertex> numbers(size_, kNoVertex);
    for (std::size_t i = 0; i < kept.size(); ++i) numbers[kept[i].vertex] = static_cast<Vertex>(i);
    Structure copy;
    copy.size_ = kept.size();
    for (const At& at : kept) {
      steps.take(incident(at.vertex).size());
      for (const std::uint32_t number : incident(at.vertex)) {
        const Fact& fact = facts_[number];
        const auto row = elements(fact);
        if (row[0] != at.vertex) continue;
        if (std::ranges::all_of(row, [&](Vertex b) { return numbers[b] != kNoVertex; })) {
          copy.add(fact.relation, row.size(), [&](std::size_t i) { return numbers[row[i]]; });
        }
      }
    }
    for (const Vertex c : centres) copy.centres_.push_back(numbers[c]);
    copy.link();
    return copy;
  }

  // All of them side by side, with all their centres.
  static Structure side_by_side(std::span<const Structure* const> parts) {
    Structure made;
    for (const Structure* part : parts) {
      const auto moved = static_cast<Vertex>(made.size_);
      for (const Fact& fact : part->facts_) {
        const auto row = part->elements(fact);
        made.add(fact.relation, row.size(), [&](std::size_t i) { return row[i] + moved; });
      }
      for (const Vertex c : part->centres_) made.centres_.push_back(c + moved);
      made.size_ += part->size_;
    }
    made.link();
    return made;
  }

  // Builds one: say its size, then facts, then centres, then `link`.
  void resize(std::size_t size) { size_ = size; }
  template <class Number>
  void add(std::size_t relation, std::size_t arity, Number&& number) {
    facts_.push_back({static_cast<std::uint32_t>(relation), static_cast<std::uint32_t>(elements_.size()),
                      static_cast<std::uint32_t>(arity)});
    for (std::size_t i = 0; i < arity; ++i) elements_.push_back(number(i));
  }
  void add_centre(Vertex centre) { centres_.push_back(centre); }

  void link() {
    incident_begin_.assign(size_ + 1, 0);
    for_each_element([&](std::size_t, Vertex v) { ++incident_begin_[v + 1]; });
    for (std::size_t v = 0; v < size_; ++v) incident_begin_[v + 1] += incident_begin_[v];
    incident_.resize(incident_begin_[size_]);
    std::vector<std::uint32_t> end(incident_begin_.begin(), incident_begin_.end() - 1);
    for_each_element([&](std::size_t fact, Vertex v) { incident_[end[v]++] = static_cast<std::uint32_t>(fact); });
    adjacent_begin_.assign(1, 0);
    std::vector<Vertex> found;
    for (Vertex v = 0; v < size_; ++v) {
      found.clear();
      for (const std::uint32_t fact : incident(v)) {
        for (const Vertex b : elements(facts_[fact])) {
          if (b != v) found.push_back(b);
        }
      }
      std::ranges::sort(found);
      found.erase(std::unique(found.begin(), found.end()), found.end());
      adjacent_.insert(adjacent_.end(), found.begin(), found.end());
      adjacent_begin_.push_back(static_cast<std::uint32_t>(adjacent_.size()));
    }
  }

 private:
  // Calls with each fact's number and each of its elements, once.
  template <class Visit>
  void for_each_element(Visit&& visit) const {
    for (std::size_t fact = 0; fact < facts_.size(); ++fact) {
      const auto row = elements(facts_[fact]);
      for (std::size_t i = 0; i < row.size(); ++i) {
        if (std::find(row.begin(), row.begin() + static_cast<std::ptrdiff_t>(i), row[i]) ==
            row.begin() + static_cast<std::ptrdiff_t>(i)) {
          visit(fact, row[i]);
        }
      }
    }
  }

  std::size_t size_ = 0;
  Vector<Fact> facts_;
  Vector<Vertex> elements_;
  Vector<std::uint32_t> incident_begin_, incident_;
  Vector<std::uint32_t> adjacent_begin_;
  Vector<Vertex> adjacent_;
  Vector<Vertex> centres_;
  std::unique_ptr<Known> known_;
};

}  // namespace everview::census

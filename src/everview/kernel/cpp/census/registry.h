// Types: classes of isomorphic neighbourhoods with centres, numbered as they are met.
//
// Colours of a few rounds of refinement tell most of them apart; that does not decide isomorphism, so each neighbourhood
// is compared with those that have the same colours by a search.
#pragma once

#include <unordered_set>

#include "structure.h"

namespace everview::census {

class Registry {
 public:
  struct Type {
    Structure structure;
    Vector<std::uint64_t> colours;
    Vector<std::pair<Vertex, Vertex>> order;  // The centres, then all others, each with a neighbour before it.
  };

  explicit Registry(Steps& steps) : steps_(&steps) {}

  Type& operator[](TypeId number) { return types_.at(number); }
  std::size_t size() const noexcept { return types_.size(); }
  TypeId met() const noexcept { return met_; }
  std::uint64_t compared() const noexcept { return compared_; }

  TypeId type_of(Structure&& structure) {
    Vector<std::uint64_t> colours = colours_of(structure);
    std::uint64_t key = mix(structure.size(), structure.facts().size());
    for (const std::uint64_t colour : colours) key += mix(colour);
    Vector<TypeId>& alike = by_colours_[key];
    for (const TypeId number : alike) {
      ++compared_;
      if (Search(types_.at(number), structure, colours, *steps_).extend(0)) return number;
    }
    Type type{std::move(structure), std::move(colours), {}};
    type.order = order_of(type.structure);
    alike.reserve(alike.size() + 1);
    types_.emplace(met_, std::move(type));
    alike.push_back(met_);
    return met_++;
  }

  // Forgets all types but those, and what is known of them.
  void forget(const std::unordered_set<TypeId>& kept) {
    std::erase_if(types_, [&](const auto& type) { return !kept.contains(type.first); });
    for (auto& [key, alike] : by_colours_) {
      std::erase_if(alike, [&](TypeId number) { return !kept.contains(number); });
    }
    std::erase_if(by_colours_, [](const auto& alike) { return alike.second.empty(); });
    for (auto& [number, type] : types_) type.structure.forget();
  }

 private:
  static constexpr int kRounds = 4;

  Vector<std::uint64_t> colours_of(const Structure& structure) {
    Vector<std::uint64_t> colours(structure.size(), 1), refined(structure.size());
    for (std::size_t i = 0; i < structure.centres().size(); ++i) {
      std::uint64_t& colour = colours[structure.centres()[i]];
      colour = mix(colour, i + 2);
    }
    for (int round = 0; round < kRounds; ++round) {
      refined = colours;
      for (std::uint64_t& colour : refined) colour = mix(colour);
      for (const Structure::Fact& fact : structure.facts()) {
        const auto row = structure.elements(fact);
        steps_->take(row.size());
        std::uint64_t hash = fact.relation;
        for (const Vertex b : row) hash = mix(hash, colours[b]);
        for (std::size_t i = 0; i < row.size(); ++i) {
          std::uint64_t where = 0;
          bool is_first = true;
          for (std::size_t j = 0; j < row.size(); ++j) {
            if (row[j] != row[i]) continue;
            where = mix(where, j + 1);
            is_first = is_first && j >= i;
          }
          if (is_first) refined[row[i]] += mix(hash, where);
        }
      }
      steps_->take(structure.size());
      colours.swap(refined);
    }
    return colours;
  }

  static Vector<std::pair<Vertex, Vertex>> order_of(const Structure& structure) {
    Vector<std::pair<Vertex, Vertex>> order;
    std::vector<bool> seen(structure.size());
    for (const Vertex c : structure.centres()) {
      if (!seen[c]) order.emplace_back(c, kNoVertex);
      seen[c] = true;
    }
    for (std::size_t i = 0; i < order.size(); ++i) {
      const Vertex a = order[i].first;
      for (const Vertex b : structure.adjacent(a)) {
        if (!seen[b]) order.emplace_back(b, a);
        seen[b] = true;
      }
    }
    return order;
  }

  // Looks for an isomorphism that maps each centre to the centre at its position.
  class Search {
   public:
    Search(const Type& known, const Structure& other, const Vector<std::uint64_t>& colours, Steps& steps)
        : known_(known), other_(other), colours_(colours), steps_(steps), image_(known.structure.size(), kNoVertex),
          used_(other.size()) {}

    bool extend(std::size_t i) {
      if (i == 0 && known_.structure.size() != other_.size()) return false;
      if (i == known_.order.size()) return maps_centres();
      const auto [a, before] = known_.order[i];
      if (before == kNoVertex) {
        const auto& centres = known_.structure.centres();
        const auto position = std::ranges::find(centres, a) - centres.begin();
        return attempt(i, a, other_.centres()[static_cast<std::size_t>(position)]);
      }
      for (const Vertex b : other_.adjacent(image_[before])) {
        if (attempt(i, a, b)) return true;
      }
      return false;
    }

   private:
    bool maps_centres() const {
      const auto& centres = known_.structure.centres();
      for (std::size_t i = 0; i < centres.size(); ++i) {
        if (image_[centres[i]] != other_.centres()[i]) return false;
      }
      return true;
    }

    bool attempt(std::size_t i, Vertex a, Vertex b) {
      if (used_[b] || colours_[b] != known_.colours[a]) return false;
      image_[a] = b;
      used_[b] = true;
      if (fits(a, b) && extend(i + 1)) return true;
      image_[a] = kNoVertex;
      used_[b] = false;
      return false;
    }

    // Whether all facts of a whose elements have images are facts of b, and as many.
    bool fits(Vertex a, Vertex b) {
      std::size_t mapped = 0, covered = 0;
      std::vector<Vertex>& row = row_;
      steps_.take(1 + known_.structure.incident(a).size());
      for (const std::uint32_t number : known_.structure.incident(a)) {
        const Structure::Fact& fact = known_.structure.facts()[number];
        row.clear();
        for (const Vertex c : known_.structure.elements(fact)) row.push_back(image_[c]);
        if (std::ranges::find(row, kNoVertex) != row.end()) continue;
        ++mapped;
        if (!other_.has(fact.relation, row)) return false;
      }
      for (const std::uint32_t number : other_.incident(b)) {
        covered += std::ranges::all_of(other_.elements(other_.facts()[number]), [&](Vertex c) { return used_[c]; });
      }
      return mapped == covered;
    }

    const Type& known_;
    const Structure& other_;
    const Vector<std::uint64_t>& colours_;
    Steps& steps_;
    std::vector<Vertex> image_;
    std::vector<bool> used_;
    std::vector<Vertex> row_;
  };

  Steps* steps_;
  HashMap<TypeId, Type> types_;
  HashMap<std::uint64_t, Vector<TypeId>> by_colours_;
  TypeId met_ = 0;
  std::uint64_t compared_ = 0;
};

}  // namespace everview::census

// Whether a formula holds: on the live facts, on representatives of types, and on several of those side by side.
#pragma once

#include <array>
#include <optional>

#include "registry.h"
#include "storage.h"

namespace everview::census {

// How many elements of the domain have which type, at one radius.
class Census {
 public:
  explicit Census(std::size_t radius) : radius_(radius) {}

  std::size_t radius() const noexcept { return radius_; }
  const HashMap<TypeId, Vector<Vertex>>& members() const noexcept { return members_; }
  TypeId type_of(Vertex v) const noexcept { return v < places_.size() ? places_[v].type : kNoType; }
  std::size_t count(TypeId type) const noexcept {
    const auto found = members_.find(type);
    return found == members_.end() ? 0 : found->second.size();
  }

  void put(Vertex v, TypeId type) {
    if (v >= places_.size()) places_.resize(std::max<std::size_t>(v + 1, 2 * places_.size()));
    Vector<Vertex>& members = members_[type];
    members.push_back(v);
    places_[v] = {type, static_cast<std::uint32_t>(members.size() - 1)};
  }
  TypeId take(Vertex v) noexcept {
    if (v >= places_.size() || places_[v].type == kNoType) return kNoType;
    const auto [type, position] = std::exchange(places_[v], {});
    const auto found = members_.find(type);
    Vector<Vertex>& members = found->second;
    members[position] = members.back();
    places_[members[position]].position = position;
    places_[v].type = kNoType;
    members.pop_back();
    if (members.empty()) members_.erase(found);
    return type;
  }

 private:
  struct Place {
    TypeId type = kNoType;
    std::uint32_t position = 0;
  };

  std::size_t radius_;
  HashMap<TypeId, Vector<Vertex>> members_;
  Vector<Place> places_;
};

using Env = std::vector<Vertex>;

// What holds under the present truths of sentences and the present census. What it has found out is kept for as long as
// it stands: for good, or while the sentences in it are what they are, or until the census changes.
class Evaluator {
 public:
  // Clusters far from each other: for each, how many centres it has, its type, and the slots of its centres.
  struct Cluster {
    std::size_t centres;
    TypeId type;
    std::array<std::size_t, 16> slots;
  };

  Evaluator(const Program& program, const Storage& storage, Steps& steps)
      : program_(&program), storage_(&storage), steps_(&steps) {
    for (const std::size_t radius : program.typed_radii) censuses_.emplace(radius, Census(radius));
  }
  Evaluator(const Evaluator&) = delete;
  Evaluator& operator=(const Evaluator&) = delete;

  const Program& program() const noexcept { return *program_; }
  const Storage& storage() const noexcept { return *storage_; }
  Steps& steps() noexcept { return *steps_; }
  OrderedMap<std::size_t, Census>& censuses() noexcept { return censuses_; }
  Census& census(std::size_t radius) { return censuses_.at(radius); }
  Registry& registry(std::size_t radius, std::size_t centres) {
    return registries_.try_emplace({radius, centres}, *steps_).first->second;
  }
  OrderedMap<std::pair<std::size_t, std::size_t>, Registry>& registries() noexcept { return registries_; }

  std::uint64_t truths() const noexcept { return truths_; }
  void set_truths(std::uint64_t truths) noexcept { truths_ = truths; }
  void set_truth(std::size_t sentence, bool holds) noexcept {
    const std::uint64_t bit = std::uint64_t{1} << sentence;
    truths_ = holds ? truths_ | bit : truths_ & ~bit;
  }
  void next_epoch() noexcept { ++epoch_; }

  // What the truth of a sub-formula depends on beside the structure: it stands while this is the same.
  std::uint64_t validity(const Node& node) const noexcept {
    return node.counts_far ? epoch_ : truths_ & node.sentences;
  }

  void forget() noexcept { kept_.clear(); }

  // Whether a sub-formula holds with such clusters, all of types of its radius. The same sub-formula with the same
  // `split` always has clusters with the same slots.
  bool holds_on_types(const Node& node, std::span<const Cluster> clusters, std::uint32_t split = 0) {
    Key key{static_cast<std::uint32_t>(node.number), split, {kNoType, kNoType, kNoType}};
    for (std::size_t i = 0; i < clusters.size(); ++i) key.types[i] = clusters[i].type;
    const std::uint64_t now = validity(node);
    if (const auto found = kept_.find(key); found != kept_.end() && found->second.validity == now) {
      return found->second.holds;
    }
    const bool holds = find_out_on_types(node, clusters);
    kept_[key] = {now, holds};
    return holds;
  }

  // The same, for whoever keeps it.
  bool find_out_on_types(const Node& node, std::span<const Cluster> clusters) {
    Env env(program_->slots, 0);
    if (clusters.size() == 1) {
      Structure& structure = registry(node.radius, clusters[0].centres)[clusters[0].type].structure;
      place(env, clusters, structure);
      return holds(node, structure, env);
    }
    std::vector<const Structure*> parts;
    for (const Cluster& cluster : clusters) {
      parts.push_back(&registry(node.radius, cluster.centres)[cluster.type].structure);
    }
    Structure structure = Structure::side_by_side(parts);
    steps_->take(structure.size());
    place(env, clusters, structure);
    return holds(node, structure, env);
  }

  bool holds_on_type(const Node& node, TypeId type, std::size_t slot) {
    const Cluster cluster{1, type, {slot}};
    return holds_on_types(node, {&cluster, 1});
  }

  // Whether it holds on a structure that has all that it may look at.
  template <class Model>
  bool holds(const Node& node, Model& model, Env& env) {
    using enum Node::Kind;
    steps_->take();
    switch (node.kind) {
      case kFact: {
        std::array<Vertex, 64> row;
        for (std::size_t i = 0; i < node.slots.size(); ++i) row[i] = env[node.slots[i]];
        return model.has(node.relation, {row.data(), node.slots.size()});
      }
      case kEqual:
        return env[node.slots[0]] == env[node.slots[1]];
      case kNear: {
        Ball near;
        model.ball({&env[node.slots[0]], 1}, node.bound, *steps_, near);
        return std::ranges::any_of(near, [&](const At& at) { return at.vertex == env[node.slots[1]]; });
      }
      case kTruth:
        return node.value;
      case kNot:
        return !holds(part(node, 0), model, env);
      case kAnd:
        for (std::size_t i = 0; i < node.parts.size(); ++i) {
          if (!holds(part(node, i), model, env)) return false;
        }
        return true;
      case kOr:
        for (std::size_t i = 0; i < node.parts.size(); ++i) {
          if (holds(part(node, i), model, env)) return true;
        }
        return false;
      case kQuantify:
        break;
    }
    if (node.is_closed()) return (truths_ >> node.sentence & 1) != 0;
    if (!node.is_guarded) return node.is_met(anywhere(node, model, env));
    Ball near;
    model.ball({&env[node.guard], 1}, node.distance, *steps_, near);
    const std::uint64_t enough = node.modulus == 0 ? node.least : ~std::uint64_t{0};
    std::uint64_t total = 0;
    for (std::size_t i = 0; i < near.size() && total < enough; ++i) {
      env[node.slot] = near[i].vertex;
      total += holds(part(node, 0), model, env);
    }
    return node.is_met(total);
  }

  const Node& part(const Node& node, std::size_t i) const noexcept { return program_->nodes[node.parts[i]]; }

 private:
  struct Kept {
    std::uint64_t validity = 0;
    bool holds = false;
  };

  struct Key {
    std::uint32_t node, split;
    std::array<TypeId, Program::kMostArity> types;
    bool operator==(const Key&) const = default;
  };
  struct KeyHash {
    std::size_t operator()(const Key& key) const noexcept {
      return mix(mix(mix(key.node, key.split), key.types[0]), mix(key.types[1], key.types[2]));
    }
  };

  static void place(Env& env, std::span<const Cluster> clusters, const Structure& structure) noexcept {
    std::size_t centre = 0;
    for (const Cluster& cluster : clusters) {
      for (std::size_t i = 0; i < cluster.centres; ++i) env[cluster.slots[i]] = structure.centres()[centre++];
    }
  }

  // How many elements of the domain are witnesses of a quantifier without a guard.
  template <class Model>
  std::uint64_t anywhere(const Node& node, Model& model, Env& env) {
    const Node& body = part(node, 0);
    Place place{static_cast<std::uint32_t>(node.number)};
    std::vector<Vertex> where;
    for (const std::size_t y : node.free) where.push_back(env[y]);
    place.insert(place.end(), where.begin(), where.end());

    Around own;
    const Around* around = &own;
    if constexpr (std::is_same_v<Model, const Storage>) {
      own = look_around(node, body.radius, model, where);
    } else {
      auto& known = model.known()->around;
      auto found = known.find(place);
      if (found == known.end()) {
        own = look_around(node, body.radius, model, where);  // It may look around elsewhere in the same structure.
        found = known.emplace(place, std::move(own)).first;
      }
      around = &found->second;
    }

    std::uint64_t total = 0;
    bool is_known = false;
    const std::uint64_t now = validity(body);
    if constexpr (!std::is_same_v<Model, const Storage>) {
      const auto found = model.known()->totals.find(place);
      is_known = found != model.known()->totals.end() && found->second.validity == now;
      if (is_known) total = found->second.total;
    }
    if (!is_known) {
      for (const Vertex a : around->near) {
        env[node.slot] = a;
        total += holds(body, model, env);
      }
      if constexpr (!std::is_same_v<Model, const Storage>) model.known()->totals[place] = {now, total};
    }

    std::array<Cluster, 2> clusters{Cluster{node.free.size(), around->base, {}}, Cluster{1, 0, {node.slot}}};
    for (std::size_t i = 0; i < node.free.size(); ++i) clusters[0].slots[i] = node.free[i];
    for (const auto& [type, members] : census(body.radius).members()) {
      steps_->take();
      const auto near = std::ranges::lower_bound(around->types, type, {}, &std::pair<TypeId, std::size_t>::first);
      const std::size_t are_near = near != around->types.end() && near->first == type ? near->second : 0;
      if (members.size() <= are_near) continue;
      clusters[1].type = type;
      if (holds_on_types(body, clusters)) total += members.size() - are_near;
    }
    return total;
  }

  template <class Model>
  Around look_around(const Node& node, std::size_t radius, Model& model, const std::vector<Vertex>& where) {
    Ball near;
    model.ball(where, 2 * radius + 1, *steps_, near);
    Around around;
    std::vector<TypeId> types;
    for (const At& at : near) {
      around.near.push_back(at.vertex);
      types.push_back(type_within(model, at.vertex, radius));
    }
    std::ranges::sort(types);
    for (const TypeId type : types) {
      if (around.types.empty() || around.types.back().first != type) around.types.emplace_back(type, 0);
      ++around.types.back().second;
    }
    around.base = registry(radius, node.free.size()).type_of(neighbourhood(model, where, radius));
    return around;
  }

  TypeId type_within(const Storage&, Vertex v, std::size_t radius) { return census(radius).type_of(v); }
  TypeId type_within(Structure& structure, Vertex v, std::size_t radius) {
    const Place place{static_cast<std::uint32_t>(radius), v};
    auto& known = structure.known()->types;
    if (const auto found = known.find(place); found != known.end()) return found->second;
    const TypeId type = registry(radius, 1).type_of(neighbourhood(structure, {&v, 1}, radius));
    return known[place] = type;
  }

  Structure neighbourhood(const Storage& storage, std::span<const Vertex> where, std::size_t radius) {
    return storage.neighbourhood(where, radius);
  }
  Structure neighbourhood(const Structure& structure, std::span<const Vertex> where, std::size_t radius) {
    Ball near;
    structure.ball(where, radius, *steps_, near);
    return structure.restricted(near, where, *steps_);
  }

  const Program* program_;
  const Storage* storage_;
  Steps* steps_;
  std::uint64_t truths_ = 0;
  std::uint64_t epoch_ = 0;
  OrderedMap<std::size_t, Census> censuses_;
  OrderedMap<std::pair<std::size_t, std::size_t>, Registry> registries_;
  HashMap<Key, Kept, KeyHash> kept_;
};

}  // namespace everview::census

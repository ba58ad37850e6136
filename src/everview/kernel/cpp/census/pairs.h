// What is kept of a binary query's answer: near pairs one by one, and far ones by their elements' types.
#pragma once

#include "results.h"

namespace everview::census {

struct Types {
  TypeId one, other;
  bool operator==(const Types&) const = default;
};
struct TypesHash {
  std::size_t operator()(const Types& types) const noexcept { return mix(types.one, types.other); }
};
struct Pair {
  Vertex one, other;
  bool operator==(const Pair&) const = default;
};
struct PairHash {
  std::size_t operator()(const Pair& pair) const noexcept {
    return mix(static_cast<std::uint64_t>(pair.one) << 32 | pair.other);
  }
};

// A near pair's class is its truth, where that depends on the neighbourhood alone, and else its type.
class PairResult final : public Result {
 public:
  static constexpr std::uint32_t kNearSplit = 1;
  struct Near {
    Vertex vertex;
    std::uint32_t position;  // In the list of the class.
    TypeId type;
  };

  explicit PairResult(Evaluator& evaluator)
      : evaluator_(&evaluator),
        formula_(&evaluator.program().formula()),
        census_(&evaluator.census(formula_->radius)),
        reach_(2 * formula_->radius + 1),
        accepts_(std::make_shared<Accepts<TypeId>>()),
        far_accepts_(std::make_shared<FarAccepts>()) {
    far_accepts_->truths = evaluator.truths();
    tell(false);
  }

  const HashMap<TypeId, Vector<Pair>>& classes() const noexcept { return classes_; }
  bool accepts(TypeId type) const { return accepts_->known.at(type); }
  std::span<const Near> near(Vertex v) const noexcept {
    return v < near_.size() ? std::span<const Near>(near_[v]) : std::span<const Near>();
  }

  std::size_t accepted() override {
    std::size_t accepted = 0;
    for (const auto& [type, pairs] : classes_) accepted += accepts(type);
    return accepted;
  }
  std::size_t types_used() const override { return formula_->is_local() ? 0 : classes_.size(); }
  void add_used_types(std::size_t radius, std::size_t centres, std::unordered_set<TypeId>& used) const override {
    if (centres != 2 || radius != formula_->radius || formula_->is_local()) return;
    for (const auto& [type, pairs] : classes_) used.insert(type);
  }
  void forget() override {
    std::erase_if(accepts_->known, [&](const auto& known) { return !classes_.contains(known.first); });
    std::erase_if(far_accepts_->known, [&](const auto& known) {
      return census_->count(known.first.one) == 0 || census_->count(known.first.other) == 0;
    });
    tell(is_told_);
  }
  bool has_changes() const override {
    return is_told_ && (!old_types_.empty() || !old_pairs_.empty() || old_accepts_ != accepts_);
  }

  // Forgets the pairs of which one may get another type.
  void before(const Ball& near) override {
    more_.clear();
    for (const At& at : near) {
      if (at.distance > census_->radius()) continue;
      const Vertex a = at.vertex;
      const TypeId type = census_->type_of(a);
      if (is_told_) old_types_.try_emplace(a, type);
      if (type != kNoType) --more_[type];
      if (a >= near_.size()) continue;
      while (!near_[a].empty()) {
        const Vertex b = near_[a].back().vertex;
        take(a, b);
        if (a != b) take(b, a);
      }
    }
  }

  // Puts the pairs back of which one may have another type, and finds out what is accepted.
  void after(const Ball& near) override {
    const std::uint64_t now = evaluator_->validity(*formula_);
    const bool stands = !formula_->counts_far && validity_ == now;
    if (!stands) {
      validity_ = now;
      accepts_ = std::make_shared<Accepts<TypeId>>();
      far_accepts_ = std::make_shared<FarAccepts>();
      far_accepts_->truths = evaluator_->truths();
    }
    stands_ = stands;
    Ball around;
    for (const At& at : near) {
      const Vertex a = at.vertex;
      if (at.distance > census_->radius()) continue;
      const TypeId type = census_->type_of(a);
      if (type == kNoType) continue;
      ++more_[type];
      evaluator_->storage().ball({&a, 1}, reach_, evaluator_->steps(), around);
      for (const At& b : around) {
        put(a, b.vertex);
        put(b.vertex, a);
      }
    }
    if (stands) {
      add_products();
      return;
    }
    near_count_ = 0;
    for (const auto& [type, pairs] : classes_) {
      if (accepts_class(type)) near_count_ += pairs.size();
    }
    far_count_ = 0;
    for (const auto& [one, members] : census_->members()) {
      for (const auto& [other, others] : census_->members()) {
        evaluator_->steps().take();
        const auto nears = near_by_types_.find({one, other});
        const Count far = Count{members.size()} * others.size() - (nears == near_by_types_.end() ? 0 : nears->second);
        if (far != 0 && far_holds({one, other})) far_count_ += far;
      }
    }
  }

  void tell(bool is_told) override {
    is_told_ = is_told;
    old_types_.clear();
    old_pairs_.clear();
    old_accepts_ = accepts_;
    old_far_ = far_accepts_;
  }

  // Pairs of which one may have another type, one by one or, if far, by the other's type; and what flipped.
  void take_changes(const Tell& told) override {
    if (!is_told_) return;
    for (const auto& [pair, type] : old_pairs_) {  // Near before, or near now.
      const bool before = type != kNoType ? old_accepts_->known.at(type)
                                          : was_far_accepted({old_type(pair.one), old_type(pair.other)});
      tell_if_changed(pair, before, told);
    }
    for (const auto& [a, type] : old_types_) {
      for (const auto& [b, type_b] : old_types_) {
        if (!old_pairs_.contains({a, b})) tell_if_changed({a, b}, was_far_accepted({type, type_b}), told);
      }
      const TypeId now = census_->type_of(a);
      for (const auto& [other, members] : census_->members()) {
        evaluator_->steps().take();
        tell_far_of_one(a, {type, other}, {now, other}, members, false, told);
        tell_far_of_one(a, {other, type}, {other, now}, members, true, told);
      }
    }
    if (old_accepts_ != accepts_) tell_flips(told);
    tell(true);
  }

  Count count() override { return near_count_ + far_count_; }

  // Whether far pairs of these types are rows; where nobody is far, it means nothing.
  bool is_far_accepted(const Types& types) {
    if (types.one == kNoType || types.other == kNoType) return false;
    const auto found = far_accepts_->known.find(types);
    if (found != far_accepts_->known.end()) return found->second;
    return !formula_->counts_far && far_holds(types);
  }

  bool test(const Row& row) override { return holds({row[0], row[1]}); }

 private:
  struct FarAccepts : Accepts<Types, TypesHash> {};

  bool accepts_class(TypeId type) {
    const auto found = accepts_->known.find(type);
    if (found != accepts_->known.end()) return found->second;
    bool holds = type != 0;
    if (!formula_->is_local()) {
      const Evaluator::Cluster cluster{2, type, {0, 1}};
      holds = evaluator_->holds_on_types(*formula_, {&cluster, 1}, kNearSplit);
    }
    accepts_->known.emplace(type, holds);
    return holds;
  }

  bool far_holds_now(const Types& types) {
    const std::array<Evaluator::Cluster, 2> clusters{Evaluator::Cluster{1, types.one, {0}},
                                                     Evaluator::Cluster{1, types.other, {1}}};
    return evaluator_->find_out_on_types(*formula_, clusters);
  }
  // Only where somebody is far, or the census does not matter.
  bool far_holds(const Types& types) {
    const auto found = far_accepts_->known.find(types);
    if (found != far_accepts_->known.end()) return found->second;
    const bool holds = far_holds_now(types);
    far_accepts_->known.emplace(types, holds);
    return holds;
  }

  // Adds to the far pairs what they have become more by, as there are more or fewer elements of some types.
  void add_products() {
    std::vector<std::pair<TypeId, Count>> counts;  // Before; then, one type after the other, now.
    for (const auto& [type, members] : census_->members()) {
      const auto found = more_.find(type);
      counts.emplace_back(type, Count{members.size()} - as_count(found == more_.end() ? 0 : found->second));
    }
    for (const auto& [type, more] : more_) {
      if (census_->count(type) == 0) counts.emplace_back(type, Count{0} - as_count(more));
    }
    for (const auto& [type, signed_more] : more_) {  // What is less is counted modulo 2^128, as all is.
      if (signed_more == 0) continue;
      const Count more = as_count(signed_more);
      std::pair<TypeId, Count>* own = nullptr;
      for (auto& count : counts) {
        evaluator_->steps().take();
        if (count.first == type) own = &count;
        if (count.second == 0) continue;
        if (far_holds({type, count.first})) far_count_ += more * count.second;
        if (far_holds({count.first, type})) far_count_ += more * count.second;
      }
      if (far_holds({type, type})) far_count_ += more * more;
      own->second += more;
    }
  }
  static Count as_count(std::int64_t number) noexcept { return static_cast<Count>(static_cast<__int128>(number)); }

  void take(Vertex a, Vertex b) {
    const auto found = std::ranges::find(near_[a], b, &Near::vertex);
    const Near known = *found;
    *found = near_[a].back();
    near_[a].pop_back();
    Vector<Pair>& pairs = classes_.at(known.type);
    const Pair last = pairs.back();
    pairs[known.position] = last;
    pairs.pop_back();
    if (last != Pair{a, b}) std::ranges::find(near_[last.one], last.other, &Near::vertex)->position = known.position;
    if (pairs.empty()) classes_.erase(known.type);
    const Types types{census_->type_of(a), census_->type_of(b)};
    const auto count = near_by_types_.find(types);
    if (--count->second == 0) near_by_types_.erase(count);
    evaluator_->steps().take();
    if (!formula_->counts_far) {
      if (accepts_class(known.type)) --near_count_;
      if (far_holds(types)) ++far_count_;
    }
    if (is_told_) old_pairs_.try_emplace(Pair{a, b}, known.type);
  }

  void put(Vertex a, Vertex b) {
    if (std::max(a, b) >= near_.size()) near_.resize(std::max<std::size_t>(std::max(a, b) + 1, 2 * near_.size()));
    if (std::ranges::find(near_[a], b, &Near::vertex) != near_[a].end()) return;
    TypeId type = 0;
    if (formula_->is_local()) {
      Env env(evaluator_->program().slots, 0);
      env[0] = a;
      env[1] = b;
      type = evaluator_->holds(*formula_, evaluator_->storage(), env) ? 1 : 0;
    } else {
      const std::array<Vertex, 2> centres{a, b};
      Registry& registry = evaluator_->registry(formula_->radius, 2);
      type = registry.type_of(evaluator_->storage().neighbourhood(centres, formula_->radius));
    }
    Vector<Pair>& pairs = classes_[type];
    near_[a].push_back({b, static_cast<std::uint32_t>(pairs.size()), type});
    pairs.push_back({a, b});
    const Types types{census_->type_of(a), census_->type_of(b)};
    ++near_by_types_[types];
    evaluator_->steps().take();
    if (stands_) {
      if (accepts_class(type)) ++near_count_;
      if (far_holds(types)) --far_count_;
    }
    if (is_told_) old_pairs_.try_emplace(Pair{a, b}, kNoType);
  }

  TypeId old_type(Vertex v) const noexcept {
    const auto found = old_types_.find(v);
    return found == old_types_.end() ? census_->type_of(v) : found->second;
  }

  // Whether far pairs of these types were rows; where nobody was, it means nothing.
  bool was_far_accepted(const Types& types) {
    if (types.one == kNoType || types.other == kNoType) return false;
    const auto found = old_far_->known.find(types);
    if (found != old_far_->known.end()) return found->second;
    if (formula_->counts_far) return false;  // All that there were are known.
    const struct AsItWas {
      AsItWas(Evaluator& used, std::uint64_t truths) : evaluator(used), now(used.truths()) { used.set_truths(truths); }
      AsItWas(const AsItWas&) = delete;
      ~AsItWas() { evaluator.set_truths(now); }
      Evaluator& evaluator;
      std::uint64_t now;
    } as_it_was(*evaluator_, old_far_->truths);
    const bool holds = far_holds_now(types);
    old_far_->known.emplace(types, holds);
    return holds;
  }
  bool holds(const Pair& pair) {
    const auto known = near(pair.one);
    const auto found = std::ranges::find(known, pair.other, &Near::vertex);
    if (found != known.end()) return accepts(found->type);
    return is_far_accepted({census_->type_of(pair.one), census_->type_of(pair.other)});
  }

  void tell_if_changed(const Pair& pair, bool before, const Tell& told) {
    if (holds(pair) != before) told({pair.one, pair.other}, !before);
  }

  // The pairs of a touched element and all untouched ones of a type that were far and are.
  void tell_far_of_one(Vertex a, const Types& was, const Types& now, const Vector<Vertex>& members, bool turned,
                       const Tell& told) {
    const bool after = is_far_accepted(now);
    if (was_far_accepted(was) == after) return;
    for (const Vertex b : members) {
      const Pair pair = turned ? Pair{b, a} : Pair{a, b};
      if (!old_types_.contains(b) && !old_pairs_.contains(pair)) told({pair.one, pair.other}, after);
    }
  }

  // Untouched pairs whose class, or pair of types, is accepted only now, or was.
  void tell_flips(const Tell& told) {
    for (const auto& [type, pairs] : classes_) {
      const auto before = old_accepts_->known.find(type);
      if (before == old_accepts_->known.end() || before->second == accepts(type)) continue;
      for (const Pair& pair : pairs) {
        if (!old_pairs_.contains(pair)) told({pair.one, pair.other}, !before->second);
      }
    }
    for (const auto& [one, members] : census_->members()) {
      for (const auto& [other, others] : census_->members()) {
        evaluator_->steps().take();
        const bool after = is_far_accepted({one, other});
        if (was_far_accepted({one, other}) == after) continue;
        for (const Vertex a : members) {
          if (old_types_.contains(a)) continue;
          const auto known = near(a);
          for (const Vertex b : others) {
            if (old_types_.contains(b)) continue;
            if (std::ranges::find(known, b, &Near::vertex) == known.end()) told({a, b}, after);
          }
        }
      }
    }
  }

  Evaluator* evaluator_;
  const Node* formula_;
  Census* census_;
  std::size_t reach_;
  Vector<Vector<Near>> near_;  // Of each element, both ways round.
  HashMap<TypeId, Vector<Pair>> classes_;
  HashMap<Types, std::size_t, TypesHash> near_by_types_;
  std::optional<std::uint64_t> validity_;
  bool stands_ = false;
  std::shared_ptr<Accepts<TypeId>> accepts_, old_accepts_;
  std::shared_ptr<FarAccepts> far_accepts_, old_far_;
  Count near_count_ = 0, far_count_ = 0;
  HashMap<TypeId, std::int64_t> more_;  // Of each type that elements have got or lost: how many more there are.
  bool is_told_ = false;
  HashMap<Vertex, TypeId> old_types_;
  HashMap<Pair, TypeId, PairHash> old_pairs_;
};

}  // namespace everview::census

// What is kept of a query's answer: of sentences, and of unary queries; nothing of those of three columns.
//
// Where a formula depends on the neighbourhood alone, what is kept is the answer itself. Where it depends on sentences or
// on the census, what is kept is by type, as the answer may change far from any change.
#pragma once

#include <functional>

#include "evaluator.h"

namespace everview::census {

using Count = unsigned __int128;
using Row = std::array<Vertex, Program::kMostArity>;
// Takes a row that came or went.
using Tell = std::function<void(const Row& row, bool came)>;

// The elements of which a local formula with one free slot holds.
class LocalMembers {
 public:
  LocalMembers(Evaluator& evaluator, const Node& formula, std::size_t slot)
      : evaluator_(&evaluator), formula_(&formula), slot_(slot) {}

  const Vector<Vertex>& elements() const noexcept { return elements_; }
  bool has(Vertex v) const noexcept { return v < positions_.size() && positions_[v] != kNowhere; }

  // Looks anew at what has been near a change, and tells who came and went.
  template <class Changed>
  void look(const Ball& near, Changed&& changed) {
    Env env(evaluator_->program().slots, 0);
    for (const At& at : near) {
      if (at.distance > formula_->radius) continue;
      env[slot_] = at.vertex;
      const bool holds = evaluator_->storage().in_domain(at.vertex) &&
                         evaluator_->holds(*formula_, evaluator_->storage(), env);
      if (holds == has(at.vertex)) continue;
      holds ? put(at.vertex) : take(at.vertex);
      changed(at.vertex, holds);
    }
  }

 private:
  static constexpr std::uint32_t kNowhere = ~std::uint32_t{0};

  void put(Vertex v) {
    if (v >= positions_.size()) positions_.resize(std::max<std::size_t>(v + 1, 2 * positions_.size()), kNowhere);
    elements_.push_back(v);
    positions_[v] = static_cast<std::uint32_t>(elements_.size() - 1);
  }
  void take(Vertex v) noexcept {
    elements_[positions_[v]] = elements_.back();
    positions_[elements_.back()] = positions_[v];
    positions_[v] = kNowhere;
    elements_.pop_back();
  }

  Evaluator* evaluator_;
  const Node* formula_;
  std::size_t slot_;
  Vector<Vertex> elements_;
  Vector<std::uint32_t> positions_;
};

// Adds up, over all elements, whether a formula holds of their types, and keeps the sum while the truths stand.
class TypeSum {
 public:
  TypeSum(Evaluator& evaluator, const Node& formula, std::size_t slot, std::uint32_t split)
      : evaluator_(&evaluator), formula_(&formula), slot_(slot), split_(split) {}

  std::uint64_t total() const noexcept { return total_; }
  Census& census() { return evaluator_->census(formula_->radius); }
  bool holds(TypeId type) {
    const Evaluator::Cluster cluster{1, type, {slot_}};
    return evaluator_->holds_on_types(*formula_, {&cluster, 1}, split_);
  }

  // Before elements get other types: leaves out those that may.
  void before(const Ball& near) {
    if (formula_->counts_far || validity_ != evaluator_->validity(*formula_)) return;
    for (const At& at : near) {
      if (at.distance > formula_->radius) continue;
      const TypeId type = census().type_of(at.vertex);
      if (type != kNoType && holds(type)) --total_;
    }
  }

  // After that; gives whether all types had to be looked at, as the truths are others.
  bool after(const Ball& near) {
    const std::uint64_t now = evaluator_->validity(*formula_);
    if (!formula_->counts_far && validity_ == now) {
      for (const At& at : near) {
        if (at.distance > formula_->radius) continue;
        const TypeId type = census().type_of(at.vertex);
        if (type != kNoType && holds(type)) ++total_;
      }
      return false;
    }
    validity_ = now;
    total_ = 0;
    for (const auto& [type, members] : census().members()) {
      evaluator_->steps().take();
      if (holds(type)) total_ += members.size();
    }
    return true;
  }

 private:
  Evaluator* evaluator_;
  const Node* formula_;
  std::size_t slot_;
  std::uint32_t split_;
  std::optional<std::uint64_t> validity_;
  std::uint64_t total_ = 0;
};

// The truths of closed quantifiers, each after those in it.
class Sentences {
 public:
  explicit Sentences(Evaluator& evaluator) : evaluator_(&evaluator) {
    const Program& program = evaluator.program();
    for (const std::size_t number : program.sentences) {
      const Node& sentence = program.nodes[number];
      const Node& body = evaluator.part(sentence, 0);
      local_.emplace_back();
      sums_.emplace_back();
      if (body.is_local()) {
        local_.back().emplace(evaluator, body, sentence.slot);
      } else {
        sums_.back().emplace(evaluator, body, sentence.slot, 0u);
      }
      evaluator.set_truth(sentence.sentence, sentence.is_met(std::uint64_t{0}));  // As of no data.
    }
  }

  void before(const Ball& near) {
    for (auto& sum : sums_) {
      if (sum) sum->before(near);
    }
  }

  void after(const Ball& near) {
    for (std::size_t i = 0; i < local_.size(); ++i) {
      const Node& sentence = evaluator_->program().nodes[evaluator_->program().sentences[i]];
      std::uint64_t total = 0;
      if (local_[i]) {
        local_[i]->look(near, [](Vertex, bool) {});
        total = local_[i]->elements().size();
      } else {
        sums_[i]->after(near);
        total = sums_[i]->total();
      }
      evaluator_->set_truth(sentence.sentence, sentence.is_met(total));
    }
  }

 private:
  Evaluator* evaluator_;
  std::vector<std::optional<LocalMembers>> local_;
  std::vector<std::optional<TypeSum>> sums_;
};

// What is kept of the answer. `before` and `after` are told what has been near a change, with its distance.
class Result {
 public:
  Result() = default;
  Result(const Result&) = delete;
  Result& operator=(const Result&) = delete;
  virtual ~Result() = default;

  virtual bool has_changes() const { return false; }
  virtual void before(const Ball&) {}
  virtual void after(const Ball& near) = 0;
  virtual void tell(bool is_told) = 0;
  // Tells what has come and gone since this was last asked, net.
  virtual void take_changes(const Tell& tell) = 0;
  virtual Count count() = 0;
  virtual bool test(const Row& row) = 0;
  virtual std::size_t accepted() { return 0; }
  virtual std::size_t types_used() const { return 0; }
  // Types that it uses, beside those of elements, of the registry of so many centres.
  virtual void add_used_types(std::size_t, std::size_t, std::unordered_set<TypeId>&) const {}
  // Forgets what is known of types that nobody has.
  virtual void forget() {}
};

// Of a query without columns: one row if it is true.
class BooleanResult final : public Result {
 public:
  explicit BooleanResult(Evaluator& evaluator) : evaluator_(&evaluator), holds_(now()), was_(holds_) {}

  bool has_changes() const override { return is_told_ && was_ != holds_; }
  void after(const Ball&) override { holds_ = now(); }
  void tell(bool is_told) override {
    is_told_ = is_told;
    was_ = holds_;
  }
  void take_changes(const Tell& tell) override {
    if (has_changes()) tell({}, holds_);
    was_ = holds_;
  }
  Count count() override { return holds_ ? 1 : 0; }
  bool test(const Row&) override { return holds_; }

 private:
  bool now() {
    Env env(evaluator_->program().slots, 0);
    return evaluator_->holds(evaluator_->program().formula(), evaluator_->storage(), env);
  }

  Evaluator* evaluator_;
  bool holds_, was_;
  bool is_told_ = false;
};

// Of a unary query that depends on neighbourhoods alone: the elements themselves.
class LocalResult final : public Result {
 public:
  explicit LocalResult(Evaluator& evaluator) : members_(evaluator, evaluator.program().formula(), 0) {}

  const LocalMembers& members() const noexcept { return members_; }
  bool has_changes() const override { return !changes_.empty(); }
  void after(const Ball& near) override {
    members_.look(near, [&](Vertex v, bool came) {
      if (is_told_ && changes_.erase(v) == 0) changes_.emplace(v, came);
    });
  }
  void tell(bool is_told) override {
    is_told_ = is_told;
    changes_.clear();
  }
  void take_changes(const Tell& tell) override {
    for (const auto& [v, came] : changes_) tell({v}, came);
    changes_.clear();
  }
  Count count() override { return members_.elements().size(); }
  bool test(const Row& row) override { return members_.has(row[0]); }

 private:
  LocalMembers members_;
  bool is_told_ = false;
  HashMap<Vertex, bool> changes_;
};

// Which types are accepted, as it was or is: it is replaced, never changed, when truths change.
template <class Key, class H = std::hash<Key>>
struct Accepts {
  HashMap<Key, bool, H> known;
  std::uint64_t truths = 0;
};

// Of a unary query that depends on sentences or the census: which types are accepted.
class TypedResult final : public Result {
 public:
  static constexpr std::uint32_t kSplit = 3;

  explicit TypedResult(Evaluator& evaluator)
      : evaluator_(&evaluator),
        sum_(evaluator, evaluator.program().formula(), 0, kSplit),
        accepts_(std::make_shared<Accepts<TypeId>>()),
        accepted_before_(accepts_) {}

  std::size_t accepted() override {
    std::size_t accepted = 0;
    for (const auto& [type, members] : sum_.census().members()) accepted += accepts(type);
    return accepted;
  }
  bool has_changes() const override { return is_told_ && (!were_.empty() || accepted_before_ != accepts_); }

  void before(const Ball& near) override {
    sum_.before(near);
    if (!is_told_) return;
    for (const At& at : near) {
      if (at.distance <= sum_.census().radius()) were_.try_emplace(at.vertex, sum_.census().type_of(at.vertex));
    }
  }

  void after(const Ball& near) override {
    if (sum_.after(near)) {
      accepts_ = std::make_shared<Accepts<TypeId>>();
      for (const auto& [type, members] : sum_.census().members()) accepts_->known.emplace(type, sum_.holds(type));
      return;
    }
    for (const At& at : near) {
      const TypeId type = at.distance <= sum_.census().radius() ? sum_.census().type_of(at.vertex) : kNoType;
      if (type != kNoType && !accepts_->known.contains(type)) accepts_->known.emplace(type, sum_.holds(type));
    }
  }

  void tell(bool is_told) override {
    is_told_ = is_told;
    were_.clear();
    accepted_before_ = accepts_;
  }

  void take_changes(const Tell& told) override {
    if (!is_told_) return;
    for (const auto& [v, type] : were_) {
      const bool before = type != kNoType && accepted_before_->known.at(type);
      if (before != test({v})) told({v}, !before);
    }
    if (accepted_before_ != accepts_) {
      for (const auto& [type, members] : sum_.census().members()) {
        const auto before = accepted_before_->known.find(type);
        if (before == accepted_before_->known.end() || before->second == accepts(type)) continue;
        for (const Vertex v : members) {
          if (!were_.contains(v)) told({v}, !before->second);
        }
      }
    }
    tell(true);
  }

  bool accepts(TypeId type) const { return accepts_->known.at(type); }
  Count count() override { return sum_.total(); }
  bool test(const Row& row) override {
    const TypeId type = sum_.census().type_of(row[0]);
    return type != kNoType && accepts(type);
  }

  void forget() override {
    std::erase_if(accepts_->known, [&](const auto& known) { return sum_.census().count(known.first) == 0; });
    accepted_before_ = accepts_;
  }

 private:
  Evaluator* evaluator_;
  TypeSum sum_;
  std::shared_ptr<Accepts<TypeId>> accepts_, accepted_before_;
  bool is_told_ = false;
  HashMap<Vertex, TypeId> were_;
};

// Of a query with three columns: it can be listed and tested, and nothing is kept of it but the census.
class UncountedResult final : public Result {
 public:
  explicit UncountedResult(Evaluator& evaluator) : evaluator_(&evaluator) {}

  void after(const Ball&) override {}
  void tell(bool is_told) override {
    if (is_told) throw std::invalid_argument("differences of a formula with more than two columns are not kept");
  }
  void take_changes(const Tell&) override {}
  Count count() override {
    throw std::invalid_argument("the rows of a formula with more than two columns are not counted");
  }
  bool test(const Row& row) override {
    const Program& program = evaluator_->program();
    Env env(program.slots, 0);
    std::copy_n(row.begin(), program.arity, env.begin());
    return evaluator_->holds(program.formula(), evaluator_->storage(), env);
  }

 private:
  Evaluator* evaluator_;
};

}  // namespace everview::census

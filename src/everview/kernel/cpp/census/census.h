// A query's answer, kept up to date: `everview.kernel.census.reference` says what it must do.
//
// A batch is taken over as a whole: its net changes come into the facts, all or none, and then everything that was near
// one of them, before or after, is looked at anew: elements get their types, sentences their truths, results their rows.
#pragma once

#include "listing.h"

namespace everview::census {

class Upkeep {
 public:
  explicit Upkeep(Program program)
      : program_(std::move(program)),
        storage_(program_, reach(program_), steps_),
        pending_(program_.relations),
        since_begin_(program_.relations) {
    build();
  }
  Upkeep(const Upkeep&) = delete;
  Upkeep& operator=(const Upkeep&) = delete;

  const Program& program() const noexcept { return program_; }
  const Storage& storage() const noexcept { return storage_; }
  Evaluator& evaluator() noexcept { return *evaluator_; }
  Result& result() noexcept { return *result_; }
  std::uint64_t version() const noexcept { return version_; }
  std::uint64_t last_steps() const noexcept { return last_steps_; }
  std::uint64_t total_steps() const noexcept { return steps_.count(); }
  const std::optional<LimitFault>& fault() const noexcept { return fault_; }
  // True if memory has run out in the middle of a change: nothing that it holds can be relied on.
  bool is_broken() const noexcept { return is_broken_; }

  void begin() noexcept {
    pending_.clear();
    since_begin_.clear();
  }
  void commit() noexcept { begin(); }

  void roll_back() {
    pending_.clear();
    since_begin_.negate();
    since_begin_.net();
    Changes back(program_.relations);
    std::swap(back, since_begin_);
    if (back.empty()) return;
    try {
      take(back, false);
    } catch (const LimitFault&) {  // It is suspended, then; the facts are what they were.
    }
    since_begin_.clear();
  }

  void apply(std::size_t relation, const Word* row, Word weight) { pending_.add(relation, row, weight); }
  // Takes over what is pending. After a `DegreeFault` it is pending still; a `LimitFault` leaves the facts as they
  // should be.
  void settle() {
    pending_.net();
    Changes changes(program_.relations);
    std::swap(changes, pending_);
    try {
      take(changes, true);
    } catch (const DegreeFault&) {
      std::swap(changes, pending_);
      throw;
    }
  }

  void resume() {
    fault_.reset();
    try {
      build();
      storage_.all_near_change();
      look(allowed(storage_.domain_size()));
    } catch (const std::bad_alloc&) {
      is_broken_ = true;
      throw;
    }
    result_->tell(is_told_);
  }

  void tell(bool is_told) {
    result_->tell(is_told);
    is_told_ = is_told;
  }

 private:
  static std::size_t reach(const Program& program) {
    std::size_t reach = program.radius();
    for (const std::size_t radius : program.typed_radii) reach = std::max(reach, radius);
    for (const std::size_t sentence : program.sentences) {
      reach = std::max(reach, program.nodes[program.nodes[sentence].parts[0]].radius);
    }
    return reach;
  }

  void build() {
    result_.reset();
    sentences_.reset();
    evaluator_.reset();
    evaluator_.emplace(program_, storage_, steps_);
    sentences_.emplace(*evaluator_);
    const bool is_local = program_.formula().is_local();
    if (program_.arity == 0) {
      result_ = std::make_unique<BooleanResult>(*evaluator_);
    } else if (program_.arity == 1 && is_local) {
      result_ = std::make_unique<LocalResult>(*evaluator_);
    } else if (program_.arity == 1) {
      result_ = std::make_unique<TypedResult>(*evaluator_);
    } else if (program_.arity == 2) {
      result_ = std::make_unique<PairResult>(*evaluator_);
    } else {
      result_ = std::make_unique<UncountedResult>(*evaluator_);
    }
  }

  std::uint64_t allowed(std::size_t changed) const noexcept {
    const Count steps = Count{program_.most_steps} * std::max<std::size_t>(1, changed);
    return static_cast<std::uint64_t>(std::min(steps, Count{~std::uint64_t{0}}));
  }

  void take(const Changes& changes, bool judged) {
    ++version_;
    const std::uint64_t before = steps_.count();
    if (!result_->has_changes()) storage_.free_numbers();
    try {
      const std::size_t changed = storage_.take(changes, judged);
      for (const Changes::Change& change : changes.all()) {
        since_begin_.add(change.relation, changes.row(change), change.weight);
      }
      if (fault_) {
        storage_.forget_near_change();
      } else {
        look(allowed(changed));
      }
    } catch (const std::bad_alloc&) {
      is_broken_ = true;
      throw;
    }
    last_steps_ = steps_.count() - before;
  }

  // Looks anew at all that has been near a change.
  void look(std::uint64_t most_steps) {
    const Ball near = storage_.near_change();
    storage_.forget_near_change();
    if (near.empty()) return;
    steps_.allow(most_steps);
    try {
      forget_idle_types();
      sentences_->before(near);
      result_->before(near);
      type(near);
      sentences_->after(near);
      result_->after(near);
    } catch (const LimitFault& fault) {
      steps_.allow_all();
      fault_ = {fault.types, fault.types ? fault.limit : program_.most_steps};
      build();
      throw *fault_;
    }
    steps_.allow_all();
  }

  void type(const Ball& near) {
    evaluator_->next_epoch();
    for (std::size_t i = 0; i < program_.typed_radii.size(); ++i) {
      const std::size_t radius = program_.typed_radii[i], limit = program_.type_limits[i];
      Census& census = evaluator_->census(radius);
      Registry& registry = evaluator_->registry(radius, 1);
      for (const At& at : near) {
        if (at.distance > radius) continue;
        census.take(at.vertex);
        if (!storage_.in_domain(at.vertex)) continue;
        census.put(at.vertex, registry.type_of(storage_.neighbourhood({&at.vertex, 1}, radius)));
      }
      if (census.members().size() > limit) throw LimitFault{true, limit};
    }
  }

  void forget_idle_types() {
    if (result_->has_changes()) return;
    std::size_t known = 0, used = result_->types_used();
    for (const auto& [key, registry] : evaluator_->registries()) known += registry.size();
    for (const auto& [radius, census] : evaluator_->censuses()) used += census.members().size();
    if (known <= 2 * used + program_.idle_types) return;
    for (auto& [key, registry] : evaluator_->registries()) {
      const auto& [radius, centres] = key;
      std::unordered_set<TypeId> kept;
      const auto census = evaluator_->censuses().find(radius);
      if (centres == 1 && census != evaluator_->censuses().end()) {
        for (const auto& [type, members] : census->second.members()) kept.insert(type);
      }
      result_->add_used_types(radius, centres, kept);
      registry.forget(kept);
    }
    evaluator_->forget();
    result_->forget();
  }

  Program program_;
  Steps steps_;
  Storage storage_;
  Changes pending_, since_begin_;
  std::optional<Evaluator> evaluator_;
  std::optional<Sentences> sentences_;
  std::unique_ptr<Result> result_;
  std::uint64_t version_ = 0, last_steps_ = 0;
  std::optional<LimitFault> fault_;
  bool is_told_ = false, is_broken_ = false;
};

}  // namespace everview::census

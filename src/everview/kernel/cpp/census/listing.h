// All rows of a query, or those with a prefix, without repetition.
//
// The positions of a row fall into clusters of elements near each other, and clusters are far from each other. Whether it
// is a row depends on the clusters' types alone. So for each way to split the positions, and each choice of types with
// which the formula holds, rows are the tuples of clusters of these types of which no two are near. The shortest lists
// are chosen from first: a list longer than all that can be near what has been chosen always has one more, so nothing is
// looked for in vain but among short lists.
#pragma once

#include <coroutine>

#include "pairs.h"

namespace everview::census {

// A row at a time, from a coroutine.
class Rows {
 public:
  struct promise_type {
    Row row{};
    std::exception_ptr failure;

    Rows get_return_object() { return Rows(std::coroutine_handle<promise_type>::from_promise(*this)); }
    std::suspend_always initial_suspend() noexcept { return {}; }
    std::suspend_always final_suspend() noexcept { return {}; }
    std::suspend_always yield_value(const Row& next) noexcept {
      row = next;
      return {};
    }
    void return_void() noexcept {}
    void unhandled_exception() noexcept { failure = std::current_exception(); }
  };

  explicit Rows(std::coroutine_handle<promise_type> handle) noexcept : handle_(handle) {}
  Rows(Rows&& other) noexcept : handle_(std::exchange(other.handle_, nullptr)) {}
  Rows& operator=(Rows&&) = delete;
  ~Rows() {
    if (handle_) handle_.destroy();
  }

  // Goes to the next row, if there is one.
  bool next() {
    if (handle_.done()) return false;
    handle_.resume();
    if (handle_.promise().failure) std::rethrow_exception(std::exchange(handle_.promise().failure, nullptr));
    return !handle_.done();
  }
  const Row& row() const noexcept { return handle_.promise().row; }

 private:
  std::coroutine_handle<promise_type> handle_;
};

class Listing {
 public:
  using Block = std::vector<std::size_t>;  // Positions of a row, in order.

  // The result must be of this evaluator; both must stay as they are while rows are read.
  Listing(Evaluator& evaluator, Result& result, std::vector<Vertex> prefix)
      : evaluator_(&evaluator), result_(&result), prefix_(std::move(prefix)), reach_(2 * evaluator.program().radius() + 1) {}
  Listing(const Listing&) = delete;
  Listing& operator=(const Listing&) = delete;

  Rows rows() {
    const std::size_t arity = evaluator_->program().arity;
    if (std::ranges::any_of(prefix_, [&](Vertex v) {
          return v == kNoVertex || !evaluator_->storage().in_domain(v);
        })) {
      co_return;
    }
    if (prefix_.size() == arity) {
      const Row row = started();
      if (result_->test(row)) co_yield row;
      co_return;
    }
    if (const auto* local = dynamic_cast<const LocalResult*>(result_)) {
      for (const Vertex v : local->members().elements()) {
        const Row row{v};
        co_yield row;
      }
      co_return;
    }
    std::vector<std::vector<Block>> splits;
    Block all(arity);
    std::iota(all.begin(), all.end(), std::size_t{0});
    std::vector<Block> begun;
    split(all, begun, splits);
    std::uint32_t number = 4;
    for (const std::vector<Block>& blocks : splits) {
      ++number;
      Rows rows = rows_of(blocks, number);
      while (rows.next()) co_yield rows.row();
    }
  }

 private:
  struct List {
    TypeId type;
    const Vector<Vertex>* singles;  // Or none: then the clusters.
    const std::vector<Row>* clusters;
    std::size_t size() const noexcept { return singles != nullptr ? singles->size() : clusters->size(); }
    Row operator[](std::size_t i) const noexcept { return singles != nullptr ? Row{(*singles)[i]} : (*clusters)[i]; }
  };
  using Clusters = std::unordered_map<TypeId, std::vector<Row>>;

  // So that what a formula gives on types is kept under the same number as where results ask for it.
  static std::uint32_t split_number(std::size_t arity, std::uint32_t number) noexcept {
    return arity == 1 ? TypedResult::kSplit : number;
  }

  Rows rows_of(const std::vector<Block>& blocks, std::uint32_t number) {
    const std::size_t arity = evaluator_->program().arity;
    if (blocks.size() == 1 && arity > 1) return cluster_rows();
    return far_rows(blocks, split_number(arity, number));
  }

  Row started() const noexcept {
    Row row{};
    std::ranges::copy(prefix_, row.begin());
    return row;
  }

  static void split(const Block& left, std::vector<Block>& begun, std::vector<std::vector<Block>>& splits) {
    if (left.empty()) {
      splits.push_back(begun);
      return;
    }
    for (std::size_t chosen = 0; chosen < std::size_t{1} << (left.size() - 1); ++chosen) {
      Block block{left[0]}, others;
      for (std::size_t i = 1; i < left.size(); ++i) ((chosen >> (i - 1) & 1) != 0 ? block : others).push_back(left[i]);
      begun.push_back(block);
      split(others, begun, splits);
      begun.pop_back();
    }
  }

  // The rows that are one cluster.
  Rows cluster_rows() {
    const auto* pairs = dynamic_cast<const PairResult*>(result_);
    if (pairs != nullptr && prefix_.empty()) {
      for (const auto& [type, listed] : pairs->classes()) {
        if (!pairs->accepts(type)) continue;
        for (const Pair& pair : listed) {
          const Row row{pair.one, pair.other};
          co_yield row;
        }
      }
      co_return;
    }
    if (pairs != nullptr) {
      for (const PairResult::Near& near : pairs->near(prefix_[0])) {
        const Row row{prefix_[0], near.vertex};
        if (pairs->accepts(near.type)) co_yield row;
      }
      co_return;
    }
    Block block(evaluator_->program().arity);
    std::iota(block.begin(), block.end(), std::size_t{0});
    Rows clusters = clusters_of(block);
    while (clusters.next()) {
      const Row row = clusters.row();
      if (result_->test(row)) co_yield row;
    }
  }

  // All tuples for these positions that are one cluster and agree with the prefix.
  Rows clusters_of(Block block) {
    const Storage& storage = evaluator_->storage();
    const bool is_fixed = block[0] < prefix_.size();
    const std::size_t firsts = is_fixed ? 1 : storage.vertices();
    Ball near;
    std::vector<std::vector<Vertex>> choices(block.size());
    for (std::size_t first = 0; first < firsts; ++first) {
      const Vertex v = is_fixed ? prefix_[block[0]] : static_cast<Vertex>(first);
      if (!storage.in_domain(v)) continue;
      storage.ball({&v, 1}, reach_ * (block.size() - 1), evaluator_->steps(), near);
      for (std::size_t i = 1; i < block.size(); ++i) {
        choices[i].clear();
        if (block[i] < prefix_.size()) {
          choices[i].push_back(prefix_[block[i]]);
        } else {
          for (const At& at : near) choices[i].push_back(at.vertex);
        }
      }
      choices[0] = {v};
      std::vector<std::size_t> at(block.size(), 0);
      for (bool more = true; more;) {
        Row row{};
        for (std::size_t i = 0; i < block.size(); ++i) row[i] = choices[i][at[i]];
        if (is_cluster({row.data(), block.size()})) co_yield row;
        std::size_t i = block.size();
        for (more = false; i > 0 && !more; --i) {
          more = ++at[i - 1] < choices[i - 1].size();
          if (!more) at[i - 1] = 0;
        }
      }
    }
  }

  bool is_cluster(std::span<const Vertex> row) const {
    std::vector<Vertex> joined{row[0]};
    std::vector<bool> is_joined(row.size());
    is_joined[0] = true;
    Ball near;
    for (bool grows = true; grows && joined.size() < row.size();) {
      grows = false;
      evaluator_->storage().ball(joined, reach_, evaluator_->steps(), near);
      for (std::size_t i = 0; i < row.size(); ++i) {
        if (is_joined[i] || !has(near, row[i])) continue;
        is_joined[i] = grows = true;
        joined.push_back(row[i]);
      }
    }
    return joined.size() == row.size();
  }

  static bool has(const Ball& ball, Vertex v) noexcept {
    return std::ranges::any_of(ball, [&](const At& at) { return at.vertex == v; });
  }

  // The clusters for these positions, by type.
  std::vector<List> lists(const Block& block, Vector<Vertex>& fixed, Clusters& clusters) {
    const std::size_t radius = evaluator_->program().radius();
    Census& census = evaluator_->census(radius);
    std::vector<List> lists;
    if (block.size() == 1 && block[0] < prefix_.size()) {
      fixed = {prefix_[block[0]]};
      lists.push_back({census.type_of(fixed[0]), &fixed, nullptr});
    } else if (block.size() == 1) {
      for (const auto& [type, members] : census.members()) lists.push_back({type, &members, nullptr});
    } else {
      Rows rows = clusters_of(block);
      while (rows.next()) {
        const Row row = rows.row();
        const TypeId type = evaluator_->registry(radius, block.size())
                                .type_of(evaluator_->storage().neighbourhood({row.data(), block.size()}, radius));
        clusters[type].push_back(row);
      }
      for (const auto& [type, listed] : clusters) lists.push_back({type, nullptr, &listed});
    }
    return lists;
  }

  // The rows that are clusters of these positions, far from each other.
  Rows far_rows(std::vector<Block> blocks, std::uint32_t number) {
    const std::size_t parts = blocks.size();
    std::vector<std::vector<List>> found;
    std::vector<Vector<Vertex>> fixed(parts);
    std::vector<Clusters> clusters(parts);
    for (std::size_t i = 0; i < parts; ++i) {
      found.push_back(lists(blocks[i], fixed[i], clusters[i]));
      if (found.back().empty()) co_return;
    }
    std::vector<std::size_t> choice(parts, 0);
    for (bool more = true; more;) {
      std::vector<List> chosen;
      for (std::size_t i = 0; i < parts; ++i) chosen.push_back(found[i][choice[i]]);
      Rows rows = conflict_free(blocks, std::move(chosen));
      bool is_first = true;
      while (rows.next()) {
        // Only now it is known that there are such tuples: else the census may have fewer elements than are near.
        if (std::exchange(is_first, false) && !holds(blocks, found, choice, number)) break;
        co_yield rows.row();
      }
      std::size_t i = parts;
      for (more = false; i > 0 && !more; --i) {
        more = ++choice[i - 1] < found[i - 1].size();
        if (!more) choice[i - 1] = 0;
      }
    }
  }

  bool holds(const std::vector<Block>& blocks, const std::vector<std::vector<List>>& found,
             const std::vector<std::size_t>& choice, std::uint32_t number) {
    if (auto* pairs = dynamic_cast<PairResult*>(result_)) {
      return pairs->is_far_accepted({found[0][choice[0]].type, found[1][choice[1]].type});
    }
    std::vector<Evaluator::Cluster> clusters;
    for (std::size_t i = 0; i < blocks.size(); ++i) {
      Evaluator::Cluster cluster{blocks[i].size(), found[i][choice[i]].type, {}};
      std::ranges::copy(blocks[i], cluster.slots.begin());
      clusters.push_back(cluster);
    }
    return evaluator_->holds_on_types(evaluator_->program().formula(), clusters, number);
  }

  // One of each list, no two near each other, as rows.
  Rows conflict_free(const std::vector<Block>& blocks, std::vector<List> lists) {
    std::vector<std::size_t> order(lists.size());
    std::iota(order.begin(), order.end(), std::size_t{0});
    std::ranges::stable_sort(order, {}, [&](std::size_t i) { return lists[i].size(); });
    std::vector<std::size_t> at(lists.size(), 0);
    std::vector<std::vector<Vertex>> taken(lists.size());  // Near what has been chosen before, in order.
    Row row{};
    std::size_t depth = 0;
    Ball near;
    while (true) {
      const List& list = lists[order[depth]];
      if (at[depth] == list.size()) {
        if (depth == 0) co_return;
        at[depth] = 0;
        ++at[--depth];
        continue;
      }
      evaluator_->steps().take();
      const Block& block = blocks[order[depth]];
      const Row cluster = list[at[depth]];
      const auto is_taken = [&](Vertex v) { return std::ranges::binary_search(taken[depth], v); };
      if (std::any_of(cluster.begin(), cluster.begin() + static_cast<std::ptrdiff_t>(block.size()), is_taken)) {
        ++at[depth];
        continue;
      }
      for (std::size_t i = 0; i < block.size(); ++i) row[block[i]] = cluster[i];
      if (depth + 1 == lists.size()) {
        ++at[depth];
        co_yield row;
        continue;
      }
      evaluator_->storage().ball({cluster.data(), block.size()}, reach_, evaluator_->steps(), near);
      taken[depth + 1] = taken[depth];
      for (const At& a : near) taken[depth + 1].push_back(a.vertex);
      std::ranges::sort(taken[depth + 1]);
      ++depth;
    }
  }

  Evaluator* evaluator_;
  Result* result_;
  std::vector<Vertex> prefix_;
  std::size_t reach_;
};

}  // namespace everview::census

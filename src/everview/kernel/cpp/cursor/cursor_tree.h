// Cursors: nests of loops that run at one go, or trees whose nodes give their rows one by one.
#pragma once

#include "../run/machine.h"

namespace everview {

// What the nodes of one tree share.
struct TreeRun {
  Unit& unit;
  std::size_t registers;  // Of the cursor.
  std::uint64_t steps = 0;

  void ask(const Question& question, const Frame& frame, Word* results) {
    const std::uint64_t before = unit.steps();
    ++steps;
    unit.answer(question, frame, results);
    steps += unit.steps() - before;
  }

  // Whether the first word that answers a question is not 0.
  bool holds(const Question& question, const Frame& frame) {
    answer.resize(unit.program().channels[question.channel].width());
    ask(question, frame, answer.data());
    return answer[0] != 0;
  }

  std::vector<Word> answer;
};

// A node on its way. The contracts stand beside the nodes: everview/kernel/reference_cursors.py has the same as
// generators. Every loop that is opened is two steps, every row of it, every guard and every question another; what a
// function does counts as its steps.
class NodeState {
 public:
  NodeState() = default;
  NodeState(const NodeState&) = delete;
  NodeState& operator=(const NodeState&) = delete;
  virtual ~NodeState() = default;

  // Begins anew with what the registers hold; the frame must stay where it is. Nodes before this one set other registers
  // only, so what it reads stays the same until it is opened again.
  virtual void open(const Frame& frame) = 0;

  // Sets the node's registers to its next row; false after the last one, however often it is called.
  virtual bool next() = 0;
};

std::unique_ptr<NodeState> make_state(const CursorNode& node, TreeRun& run);

// Steps after steps: for every row of the first all rows of the others, the last changing fastest. Without steps there is
// one row.
class ProductState {
 public:
  ProductState(const std::vector<CursorNode>& steps, TreeRun& run) {
    for (const CursorNode& step : steps) states_.push_back(make_state(step, run));
  }

  void open(const Frame& frame) noexcept {
    frame_ = &frame;
    begun_ = done_ = false;
  }

  bool next() {
    if (done_) return false;
    if (!std::exchange(begun_, true)) {
      if (states_.empty()) return true;
      depth_ = 0;
      states_[0]->open(*frame_);
    }
    while (!states_.empty()) {
      if (states_[depth_]->next()) {
        if (depth_ + 1 == states_.size()) return true;
        states_[++depth_]->open(*frame_);
      } else if (depth_-- == 0) {
        break;
      }
    }
    done_ = true;
    return false;
  }

 private:
  std::vector<std::unique_ptr<NodeState>> states_;
  const Frame* frame_ = nullptr;
  std::size_t depth_ = 0;
  bool begun_ = false;
  bool done_ = true;
};

// The outputs of a part become the words of its node.
inline void set_words(const std::vector<std::uint32_t>& words, const std::vector<Output>& outputs, const Frame& from,
                      const Frame& to) {
  for (std::size_t i = 0; i < words.size(); ++i) to.registers[words[i]] = read(outputs[i], from);
}

// Loop: the rows of a group, as they stand, of a whole table, or of a group of an ordered index, in order.
class LoopState : public NodeState {
 public:
  LoopState(const Loop& loop, TreeRun& run) : loop_(loop), run_(run) {}

  void open(const Frame& frame) override {
    frame_ = &frame;
    run_.steps += 2;
    rows_ = {};
    next_ = kNoRow;
    if (loop_.whole) {
      next_ = loop_.table->size() == 0 ? kNoRow : 0;
      return;
    }
    if (!loop_.ordered) {
      rows_ = rows_of(loop_, frame);
      return;
    }
    const KeyWords key(loop_.key, frame);
    const Word start = read(loop_.start, frame);
    if (start < 0) return;
    const Word rank = loop_.descending ? -1 - start : start;
    next_ = order().select(key.data(), loop_.key.size(), rank, loop_.table->view());
  }

  bool next() override {
    Row row = kNoRow;
    if (!next_row(row)) return false;
    frame_->registers[loop_.reg] = row;
    return true;
  }

  bool next_row(Row& row) {
    if (next_ != kNoRow) {
      row = next_;
      next_ = following(row);
    } else if (!rows_.empty()) {
      row = rows_.front();
      rows_ = rows_.subspan(1);
    } else {
      return false;
    }
    ++run_.steps;
    return true;
  }

 private:
  const OrderedIndex& order() const noexcept { return loop_.table->orders()[loop_.index]; }
  Row following(Row row) const {
    if (!loop_.whole) return order().next(row, loop_.descending, loop_.key.size(), loop_.table->view());
    return row + 1 < loop_.table->size() ? row + 1 : kNoRow;
  }

  const Loop& loop_;
  TreeRun& run_;
  const Frame* frame_ = nullptr;
  std::span<const Row> rows_;  // Those that are left,
  Row next_ = kNoRow;          // or the next one in order, or of the table.
};

inline bool guard_holds(const CursorNode& guard, const Frame& frame) {
  return test_words(guard.test, read(guard.operands[0], frame), read(guard.operands[1], frame));
}

// Guard: one row if the test holds, else none.
class GuardState : public NodeState {
 public:
  GuardState(const CursorNode& node, TreeRun& run) : node_(node), run_(run) {}

  void open(const Frame& frame) override {
    ++run_.steps;
    holds_ = guard_holds(node_, frame);
  }
  bool next() override { return std::exchange(holds_, false); }

 private:
  const CursorNode& node_;
  TreeRun& run_;
  bool holds_ = false;
};

// Ask: one row, the words that a function gives. Faults if the function does.
class AskState : public NodeState {
 public:
  AskState(const CursorNode& node, TreeRun& run) : node_(node), run_(run), results_(node.words.size()) {}

  void open(const Frame& frame) override {
    run_.ask(node_.question, frame, results_.data());
    for (std::size_t i = 0; i < results_.size(); ++i) frame.registers[node_.words[i]] = results_[i];
    there_ = true;
  }
  bool next() override { return std::exchange(there_, false); }

 private:
  const CursorNode& node_;
  TreeRun& run_;
  std::vector<Word> results_;
  bool there_ = false;
};

// Concat: the rows of each part, one part after the other, as often as the parts give them.
class ConcatState : public NodeState {
 public:
  ConcatState(const CursorNode& node, TreeRun& run) : node_(node) {
    for (const CursorPart& part : node.parts) parts_.emplace_back(part.steps, run);
  }

  void open(const Frame& frame) override {
    frame_ = &frame;
    at_ = 0;
    if (!parts_.empty()) parts_[0].open(frame);
  }

  bool next() override {
    while (at_ < parts_.size()) {
      if (parts_[at_].next()) {
        set_words(node_.words, node_.parts[at_].outputs, *frame_, *frame_);
        return true;
      }
      if (++at_ < parts_.size()) parts_[at_].open(*frame_);
    }
    return false;
  }

 private:
  const CursorNode& node_;
  std::vector<ProductState> parts_;
  const Frame* frame_ = nullptr;
  std::size_t at_ = 0;
};

// The next row of the union of some sets, by substitution: a row that a later set has makes way for that set's next one,
// and comes when the later set has come to it. `sets.take(i)` sets the words to the next row of set i, or says that there
// is none; `sets.has(i)` asks whether set i has the row that the words hold. The first `used_up` sets have given all their
// rows. Each row comes once, if every set gives its rows once and has what it gives; else it faults, or rows come twice.
template <class Sets>
bool next_of_union(Sets& sets, std::size_t& used_up) {
  bool found = false;
  for (std::size_t i = used_up; i < sets.size(); ++i) {
    if (found && !sets.has(i)) continue;
    if (sets.take(i)) {
      found = true;
    } else if (found) {
      fail_program("a test says that a set has a row which it has not given");
    } else {
      used_up = i + 1;
    }
  }
  return found;
}

// Union: each row of the members once. The members' registers are their own, so they share the frame.
class UnionState : public NodeState {
 public:
  UnionState(const CursorNode& node, TreeRun& run) : node_(node), run_(run) {
    for (const CursorPart& member : node.parts) members_.emplace_back(member.steps, run);
  }

  void open(const Frame& frame) override {
    frame_ = &frame;
    used_up_ = 0;
    for (ProductState& member : members_) member.open(frame);
  }
  bool next() override { return next_of_union(*this, used_up_); }

  std::size_t size() const noexcept { return members_.size(); }
  bool has(std::size_t i) { return run_.holds(node_.parts[i].test, *frame_); }
  bool take(std::size_t i) {
    if (!members_[i].next()) return false;
    set_words(node_.words, node_.parts[i].outputs, *frame_, *frame_);
    return true;
  }

 private:
  const CursorNode& node_;
  TreeRun& run_;
  std::vector<ProductState> members_;
  const Frame* frame_ = nullptr;
  std::size_t used_up_ = 0;
};

// Buckets: the union over a set for every row of a loop. A bucket has registers of its own from its first row on: a copy
// of those that were set when the node was opened, with the loop's row.
class BucketsState : public NodeState {
 public:
  BucketsState(const CursorNode& node, TreeRun& run) : node_(node), run_(run), each_(node.loop, run) {}

  void open(const Frame& frame) override {
    frame_ = &frame;
    used_up_ = 0;
    rows_.clear();
    each_.open(frame);
    for (Row row = kNoRow; each_.next_row(row);) rows_.push_back(row);
    for (const std::unique_ptr<Bucket>& bucket : buckets_) bucket->is_open = false;
  }
  bool next() override { return next_of_union(*this, used_up_); }

  std::size_t size() const noexcept { return rows_.size(); }
  bool has(std::size_t i) {
    frame_->registers[node_.loop.reg] = rows_[i];
    return run_.holds(node_.parts[0].test, *frame_);
  }
  bool take(std::size_t i) {
    Bucket& bucket = opened(i);
    if (!bucket.product.next()) return false;
    set_words(node_.words, node_.parts[0].outputs, bucket.frame, *frame_);
    return true;
  }

 private:
  struct Bucket {
    Bucket(const CursorNode& node, TreeRun& run)
        : registers(run.registers), frame{registers.data(), 0}, product(node.parts[0].steps, run) {}

    std::vector<Word> registers;
    Frame frame;
    ProductState product;
    bool is_open = false;
  };

  Bucket& opened(std::size_t i) {
    while (buckets_.size() <= i) buckets_.push_back(std::make_unique<Bucket>(node_, run_));
    Bucket& bucket = *buckets_[i];
    if (!std::exchange(bucket.is_open, true)) {
      std::copy_n(frame_->registers, bucket.registers.size(), bucket.registers.data());
      bucket.registers[node_.loop.reg] = rows_[i];
      bucket.product.open(bucket.frame);
    }
    return bucket;
  }

  const CursorNode& node_;
  TreeRun& run_;
  LoopState each_;
  const Frame* frame_ = nullptr;
  std::vector<Row> rows_;
  std::vector<std::unique_ptr<Bucket>> buckets_;  // They stay for when the node is opened again.
  std::size_t used_up_ = 0;
};

inline std::unique_ptr<NodeState> make_state(const CursorNode& node, TreeRun& run) {
  switch (node.kind) {
    case CursorNode::Kind::kLoop:
      return std::make_unique<LoopState>(node.loop, run);
    case CursorNode::Kind::kGuard:
      return std::make_unique<GuardState>(node, run);
    case CursorNode::Kind::kAsk:
      return std::make_unique<AskState>(node, run);
    case CursorNode::Kind::kConcat:
      return std::make_unique<ConcatState>(node, run);
    case CursorNode::Kind::kUnion:
      return std::make_unique<UnionState>(node, run);
    case CursorNode::Kind::kBuckets:
      return std::make_unique<BucketsState>(node, run);
  }
  __builtin_unreachable();
}

// Lists a result. It holds for as long as the tables that it reads stay as they were. A fault, or a lack of memory, ends it for good.
class CursorState {
 public:
  CursorState(Unit& unit, const CursorPlan& plan, const Word* arguments)
      : unit_(unit),
        plan_(plan),
        version_(unit.version_of(plan.reads)),
        registers_(plan.registers),
        frame_{registers_.data(), 0},
        run_{unit, plan.registers, 0, {}} {
    std::copy_n(arguments, plan.parameters, registers_.data());
    if (!plan.steps.empty()) tree_.emplace(plan.steps, run_);
  }
  CursorState(const CursorState&) = delete;
  CursorState& operator=(const CursorState&) = delete;

  bool is_stale() const noexcept { return version_ != unit_.version_of(plan_.reads); }
  std::uint64_t steps() const noexcept { return run_.steps; }

  // Gives up to `limit` rows to `out` (skips them, if it is null) and returns how many; fewer only at the end.
  std::size_t run(Channel* out, std::size_t limit) {
    if (fault_) throw *fault_;
    try {
      if (!std::exchange(begun_, true)) tree_ ? tree_->open(frame_) : begin_nest();
      return tree_ ? run_tree(out, limit) : run_nests(out, limit);
    } catch (const Fault& fault) {
      fault_ = fault;
      throw;
    } catch (const std::bad_alloc&) {  // Rows of the page are lost, so it must not go on.
      fault_ = Fault{Fault::Kind::kMemory, "there was no memory left when the cursor was read"};
      throw;
    }
  }

 private:
  // The nest at hand, or the next one whose guards hold.
  void begin_nest() {
    for (; nest_ < plan_.nests.size(); ++nest_) {
      bool holds = true;
      for (const CursorNode& guard : plan_.nests[nest_].guards) {
        ++run_.steps;
        holds = holds && guard_holds(guard, frame_);
      }
      if (!holds) continue;
      walk_.begin(plan_.nests[nest_].nest, frame_);
      return;
    }
  }

  std::size_t run_nests(Channel* out, std::size_t limit) {
    std::size_t given = 0;
    while (given < limit && nest_ < plan_.nests.size()) {
      given += walk_.run(out, limit - given);
      run_.steps += walk_.take_steps();
      if (given == limit) break;
      ++nest_;
      begin_nest();
    }
    return given;
  }

  std::size_t run_tree(Channel* out, std::size_t limit) {
    std::size_t given = 0;
    while (given < limit && tree_->next()) {
      ++given;
      ++run_.steps;
      if (out == nullptr) continue;
      out->make_room(1);
      write_outputs(plan_.outputs, frame_, *out);
      out->add_rows(1);
    }
    for (const std::uint32_t channel : plan_.answers) unit_.channel(channel).clear();
    return given;
  }

  Unit& unit_;
  const CursorPlan& plan_;
  std::uint64_t version_;
  std::vector<Word> registers_;
  Frame frame_;
  TreeRun run_;
  std::size_t nest_ = 0;
  Walk walk_;
  std::optional<ProductState> tree_;
  bool begun_ = false;
  std::optional<Fault> fault_;
};

}  // namespace everview

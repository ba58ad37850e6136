// A formula as Python has analysed it: nodes in a flat list, each after its parts, with what follows from their shape.
#pragma once

#include "memory.h"

namespace everview::census {

struct Relation {
  std::size_t arity;
  bool has_edges;
  bool is_domain;
};

struct Node {
  enum class Kind : std::uint8_t { kFact, kEqual, kNear, kTruth, kNot, kAnd, kOr, kQuantify };

  Kind kind;
  std::size_t number;
  std::size_t relation = 0;
  std::vector<std::size_t> slots;  // Of a fact; of an equality or a distance, two.
  std::size_t bound = 0;           // Of a distance.
  bool value = false;              // Of a truth value.
  std::vector<std::size_t> parts;  // By number; of a negation or a quantifier, one.

  std::size_t slot = 0;  // Of a quantifier, as is all that follows.
  std::uint64_t least = 0;
  std::uint64_t residue = 0, modulus = 0;  // A modulus of 0: there is a least number.
  bool is_guarded = false;
  std::size_t guard = 0, distance = 0;

  std::vector<std::size_t> free;  // In order.
  std::size_t radius = 0;
  std::uint64_t sentences = 0;  // One bit for each that its truth may depend on.
  bool counts_far = false;
  std::size_t sentence = 0;  // Of a closed quantifier.

  bool is_local() const noexcept { return sentences == 0 && !counts_far; }
  bool is_closed() const noexcept { return kind == Kind::kQuantify && free.empty(); }

  template <class Number>
  bool is_met(Number total) const noexcept {
    return modulus == 0 ? total >= least : total % modulus == residue;
  }
};

struct Program {
  static constexpr std::size_t kMostArity = 3;
  static constexpr std::size_t kMostSentences = 64;

  std::vector<Relation> relations;
  std::vector<Node> nodes;
  std::vector<std::size_t> sentences;  // Their nodes, each after those in it.
  std::vector<std::size_t> typed_radii;
  std::vector<std::size_t> type_limits;  // How many types there may be at each of these radii.
  std::size_t arity = 0, slots = 0, degree = 0;
  std::uint64_t most_steps = 0;
  std::size_t idle_types = 0;

  const Node& formula() const noexcept { return nodes.back(); }
  std::size_t radius() const noexcept { return formula().radius; }
};

// Reads what `everview.kernel.census.machine` writes.
class Decoder {
 public:
  Decoder(const Word* words, std::size_t size) : words_(words), end_(words + size) {}

  Program decode() {
    Program program;
    const std::size_t relations = next(1 << 16);
    for (std::size_t i = 0; i < relations; ++i) {
      Relation relation{};
      relation.arity = next(64);
      relation.has_edges = next(2) != 0;
      relation.is_domain = next(2) != 0;
      if (relation.arity == 0) bad();
      program.relations.push_back(relation);
    }
    program.arity = next(Program::kMostArity + 1);
    program.slots = next(1 << 16);
    program.degree = next(1 << 30);
    program.most_steps = next(kMost);
    program.idle_types = next(kMost);
    program.typed_radii = list(1 << 16);
    program.type_limits = list(kMost);
    if (program.type_limits.size() != program.typed_radii.size()) bad();
    const std::size_t nodes = next(1 << 20);
    if (nodes == 0 || program.slots < program.arity) bad();
    for (std::size_t i = 0; i < nodes; ++i) program.nodes.push_back(node(program));
    for (const Node& n : program.nodes) {
      if (n.is_closed()) program.sentences.push_back(n.number);
    }
    if (words_ != end_ || program.sentences.size() > Program::kMostSentences) bad();
    return program;
  }

 private:
  static constexpr std::size_t kMost = std::size_t{1} << 62;
  static constexpr std::size_t kMostFree = 16;  // As many slots as a cluster has.

  [[noreturn]] static void bad() { throw std::invalid_argument("this is no program of a census"); }

  std::size_t next(std::size_t below) {
    if (words_ == end_ || *words_ < 0 || static_cast<std::size_t>(*words_) >= below) bad();
    return static_cast<std::size_t>(*words_++);
  }

  std::vector<std::size_t> list(std::size_t below) {
    std::vector<std::size_t> items(next(1 << 16));
    for (std::size_t& item : items) item = next(below);
    return items;
  }

  Node node(const Program& program) {
    Node made{};
    made.number = program.nodes.size();
    made.kind = static_cast<Node::Kind>(next(8));
    made.relation = next(program.relations.size() + 1);
    made.slots = list(program.slots);
    made.bound = next(1 << 16);
    made.value = next(2) != 0;
    made.parts = list(made.number);
    made.slot = next(program.slots + 1);
    made.least = next(kMost);
    made.modulus = next(kMost);
    made.residue = next(std::max<std::size_t>(made.modulus, 1));
    made.is_guarded = next(2) != 0;
    made.guard = next(program.slots + 1);
    made.distance = next(1 << 16);
    made.free = list(program.slots);
    made.radius = next(1 << 16);
    for (const std::size_t sentence : list(Program::kMostSentences)) made.sentences |= std::uint64_t{1} << sentence;
    made.counts_far = next(2) != 0;
    made.sentence = next(Program::kMostSentences);
    if (made.free.size() > kMostFree) bad();
    using enum Node::Kind;
    if (made.kind == kFact) {
      if (made.relation >= program.relations.size() || !program.relations[made.relation].has_edges) bad();
      if (made.slots.size() != program.relations[made.relation].arity) bad();
    }
    if ((made.kind == kEqual || made.kind == kNear) && made.slots.size() != 2) bad();
    if ((made.kind == kNot || made.kind == kQuantify) && made.parts.size() != 1) bad();
    if (made.kind == kQuantify && (made.slot >= program.slots || (made.is_guarded && made.guard >= program.slots))) bad();
    return made;
  }

  const Word* words_;
  const Word* end_;
};

}  // namespace everview::census

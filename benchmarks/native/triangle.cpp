// Triangles by hand: G1(a, b), G2(b, c), G3(c, a) over one table of edges, with neighbours both ways and a hash table of
// edges and their copies. The shorter of two lists is walked, and the third edge looked up.
// Beside the other programs' modes there is `count`: only the number of triangles is kept; it is `net`'s only number.
#include "common.h"

// Edges and how many copies each has: open addressing with linear probing, and no tombstones.
class Edges {
 public:
  Word copies(Word s, Word t) const {
    const std::uint64_t key = key_of(s, t);
    for (std::size_t at = home(key);; at = (at + 1) & mask_) {
      if (slots_[at].copies == 0) return 0;
      if (slots_[at].key == key) return slots_[at].copies;
    }
  }
  // The copies there were before.
  Word change(Word s, Word t, Word weight) {
    if (size_ * 2 >= slots_.size()) grow();
    const std::uint64_t key = key_of(s, t);
    std::size_t at = home(key);
    while (slots_[at].copies != 0 && slots_[at].key != key) at = (at + 1) & mask_;
    const Word before = slots_[at].copies;
    slots_[at] = {key, before + weight};
    if (before == 0) ++size_;
    if (before + weight == 0) close_gap(at);
    return before;
  }

 private:
  struct Slot {
    std::uint64_t key;
    Word copies;
  };

  static std::uint64_t key_of(Word s, Word t) {
    return static_cast<std::uint64_t>(s) << 32 | static_cast<std::uint64_t>(t);
  }
  std::size_t home(std::uint64_t key) const {
    key *= 0x9E3779B97F4A7C15u;
    return static_cast<std::size_t>(key >> 32 ^ key >> 11) & mask_;
  }
  void close_gap(std::size_t gap) {
    --size_;
    for (std::size_t at = (gap + 1) & mask_; slots_[at].copies != 0; at = (at + 1) & mask_) {
      if (((at - home(slots_[at].key)) & mask_) >= ((at - gap) & mask_)) {
        slots_[gap] = slots_[at];
        gap = at;
      }
    }
    slots_[gap].copies = 0;
  }
  void grow() {
    std::vector<Slot> old(slots_.size() * 2);
    old.swap(slots_);
    mask_ = slots_.size() - 1;
    for (const Slot& slot : old) {
      if (slot.copies == 0) continue;
      std::size_t at = home(slot.key);
      while (slots_[at].copies != 0) at = (at + 1) & mask_;
      slots_[at] = slot;
    }
  }

  std::vector<Slot> slots_ = std::vector<Slot>(16);
  std::size_t mask_ = 15;
  std::size_t size_ = 0;
};

enum class Kept { kDeltas, kCount, kState };

struct Graph {
  explicit Graph(std::size_t vertices) : out(vertices), in(vertices) {}

  std::vector<Neighbours> out, in;
  Edges edges;
  std::uint64_t triangles = 0;

  template <Kept kKept>
  void apply(const Update& u, Word position, Deltas<3>& deltas) {
    if constexpr (kKept == Kept::kDeltas) {
      if (u.source != u.target) {
        for_paths(u.target, u.source, [&](Word v, Word copies) { tell(u, v, u.weight * copies, position, deltas); });
      } else {
        tell_loop(u, position, deltas);
      }
    } else if constexpr (kKept == Kept::kCount) {
      Word paths = 0;
      for_paths(u.target, u.source, [&](Word, Word copies) { paths += copies; });
      Word change = 3 * u.weight * paths;
      if (u.source == u.target) {
        change += 3 * u.weight * u.weight * edges.copies(u.source, u.source) + u.weight * u.weight * u.weight;
      }
      triangles += static_cast<std::uint64_t>(change);
    }
    const Word before = edges.change(u.source, u.target, u.weight);
    auto &outgoing = out[static_cast<std::size_t>(u.source)], &incoming = in[static_cast<std::size_t>(u.target)];
    if (before == 0) {
      outgoing.add(u.target);
      incoming.add(u.source);
    } else if (before + u.weight == 0) {
      outgoing.remove(u.target);
      incoming.remove(u.source);
    }
  }

 private:
  // Every v with edges from → v → to, and the number of such paths.
  template <typename Body>
  void for_paths(Word from, Word to, Body body) const {
    const Neighbours &outgoing = out[static_cast<std::size_t>(from)], &incoming = in[static_cast<std::size_t>(to)];
    if (outgoing.size() <= incoming.size()) {
      for (const Word v : outgoing) {
        if (const Word second = edges.copies(v, to)) body(v, edges.copies(from, v) * second);
      }
    } else {
      for (const Word v : incoming) {
        if (const Word first = edges.copies(from, v)) body(v, first * edges.copies(v, to));
      }
    }
  }
  // The edge as the first, the second and the third of a triangle.
  static void tell(const Update& u, Word v, Word weight, Word position, Deltas<3>& deltas) {
    deltas.add({u.source, u.target, v}, weight, position);
    deltas.add({v, u.source, u.target}, weight, position);
    deltas.add({u.target, v, u.source}, weight, position);
  }
  // A loop may be several edges of a triangle at once: G1 changes, then G2, then G3.
  void tell_loop(const Update& u, Word position, Deltas<3>& deltas) const {
    const Word x = u.source, e = edges.copies(x, x), m = u.weight;
    for_paths(x, x, [&](Word v, Word copies) {
      if (v != x) tell(u, v, m * copies, position, deltas);
    });
    for (const Word copies : {e * e, (e + m) * e, (e + m) * (e + m)}) {
      if (copies != 0) deltas.add({x, x, x}, m * copies, position);
    }
  }
};

int main(int argc, char** argv) {
  if (argc != 3) return 2;
  const std::string mode = argv[1];
  const std::vector<Update> updates = read_updates(argv[2]);
  Graph graph(count_vertices(updates));
  Deltas<3> deltas(mode == "check");
  const Clock clock;
  Word position = 0;
  if (mode == "count") {
    for (const Update& u : updates) graph.apply<Kept::kCount>(u, position++, deltas);
    std::printf("{\"mode\": \"count\", \"updates\": %zu, \"rows\": 1, \"seconds\": %.6f, \"peak\": %zu, ", updates.size(),
                clock.seconds(), peak_memory());
    std::printf("\"sums\": [], \"net\": [%llu]}\n", static_cast<unsigned long long>(graph.triangles));
    return 0;
  }
  if (mode == "state") {
    for (const Update& u : updates) graph.apply<Kept::kState>(u, position++, deltas);
  } else {
    for (const Update& u : updates) graph.apply<Kept::kDeltas>(u, position++, deltas);
  }
  deltas.print(argv[1], updates.size(), clock.seconds());
}

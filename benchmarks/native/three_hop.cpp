// 3-Hop by hand: G1(a, b), G2(b, c), G3(c, d), every FILTER-th d. An update changes G1, then G2, then G3.
#include "common.h"

#ifndef FILTER
#define FILTER 10
#endif

struct Graph {
  explicit Graph(std::size_t vertices) : in1(vertices), in2(vertices), out2(vertices), out3(vertices) {}

  std::vector<Neighbours> in1;   // b -> a
  std::vector<Neighbours> in2;   // c -> b
  std::vector<Neighbours> out2;  // b -> c
  std::vector<Neighbours> out3;  // c -> d, filtered

  template <bool kDeltas>
  void apply(const Update& u, Word position, Deltas<4>& deltas) {
    const auto s = static_cast<std::size_t>(u.source), t = static_cast<std::size_t>(u.target);
    if constexpr (kDeltas) {
      for (const Word c : out2[t]) {
        deltas.add({u.source, u.target, c, 0}, 3, out3[static_cast<std::size_t>(c)], u.weight, position);
      }
    }
    change(in1[t], u.source, u.weight);
    if constexpr (kDeltas) {
      // The longer list goes inside: columns are then filled in longer runs.
      if (in1[s].size() > out3[t].size()) {
        for (const Word d : out3[t]) deltas.add({0, u.source, u.target, d}, 0, in1[s], u.weight, position);
      } else {
        for (const Word a : in1[s]) deltas.add({a, u.source, u.target, 0}, 3, out3[t], u.weight, position);
      }
    }
    change(out2[s], u.target, u.weight);
    change(in2[t], u.source, u.weight);
    if (u.target % FILTER != 0) return;
    if constexpr (kDeltas) {
      for (const Word b : in2[s]) {
        deltas.add({0, b, u.source, u.target}, 0, in1[static_cast<std::size_t>(b)], u.weight, position);
      }
    }
    change(out3[s], u.target, u.weight);
  }

  static void change(Neighbours& list, Word vertex, Word weight) {
    weight > 0 ? list.add(vertex) : list.remove(vertex);
  }
};

int main(int argc, char** argv) {
  if (argc != 3) return 2;
  const std::string mode = argv[1];
  const std::vector<Update> updates = read_updates(argv[2]);
  Graph graph(count_vertices(updates));
  Deltas<4> deltas(mode == "check");
  const Clock clock;
  Word position = 0;
  if (mode == "state") {
    for (const Update& u : updates) graph.apply<false>(u, position++, deltas);
  } else {
    for (const Update& u : updates) graph.apply<true>(u, position++, deltas);
  }
  deltas.print(argv[1], updates.size(), clock.seconds());
}

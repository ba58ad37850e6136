// 4-Hop by hand: G1(a, b), G2(b, c), G3(c, d), G4(d, e), every FILTER-th e. An update changes G1, G2, G3, then G4.
#include "common.h"

#ifndef FILTER
#define FILTER 10
#endif

struct Graph {
  explicit Graph(std::size_t vertices)
      : in1(vertices), in2(vertices), in3(vertices), out2(vertices), out3(vertices), out4(vertices) {}

  std::vector<Neighbours> in1, in2, in3;     // target -> sources, of G1, G2, G3
  std::vector<Neighbours> out2, out3, out4;  // source -> targets, of G2, G3 and, filtered, G4

  template <bool kDeltas>
  void apply(const Update& u, Word position, Deltas<5>& deltas) {
    const Word w = u.weight, x = u.source, y = u.target;
    if constexpr (kDeltas) {
      for (const Word c : of(out2, y)) {
        for (const Word d : of(out3, c)) deltas.add({x, y, c, d, 0}, 4, of(out4, d), w, position);
      }
    }
    change(in1, y, x, w);
    if constexpr (kDeltas) {
      for (const Word d : of(out3, y)) {
        for (const Word e : of(out4, d)) deltas.add({0, x, y, d, e}, 0, of(in1, x), w, position);
      }
    }
    change(out2, x, y, w);
    change(in2, y, x, w);
    if constexpr (kDeltas) {
      for (const Word b : of(in2, x)) {
        for (const Word e : of(out4, y)) deltas.add({0, b, x, y, e}, 0, of(in1, b), w, position);
      }
    }
    change(out3, x, y, w);
    change(in3, y, x, w);
    if (y % FILTER != 0) return;
    if constexpr (kDeltas) {
      for (const Word c : of(in3, x)) {
        for (const Word b : of(in2, c)) deltas.add({0, b, c, x, y}, 0, of(in1, b), w, position);
      }
    }
    change(out4, x, y, w);
  }

  static const Neighbours& of(const std::vector<Neighbours>& lists, Word at) {
    return lists[static_cast<std::size_t>(at)];
  }
  static void change(std::vector<Neighbours>& lists, Word at, Word vertex, Word weight) {
    Neighbours& list = lists[static_cast<std::size_t>(at)];
    weight > 0 ? list.add(vertex) : list.remove(vertex);
  }
};

int main(int argc, char** argv) {
  if (argc != 3) return 2;
  const std::string mode = argv[1];
  const std::vector<Update> updates = read_updates(argv[2]);
  Graph graph(count_vertices(updates));
  Deltas<5> deltas(mode == "check");
  const Clock clock;
  Word position = 0;
  if (mode == "state") {
    for (const Update& u : updates) graph.apply<false>(u, position++, deltas);
  } else {
    for (const Update& u : updates) graph.apply<true>(u, position++, deltas);
  }
  deltas.print(argv[1], updates.size(), clock.seconds());
}

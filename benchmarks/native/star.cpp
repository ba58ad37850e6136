// Star by hand: G1(x, a), G2(x, b), G3(x, c), G4(x, d), the count of results by x. An update changes G1, …, G4 in turn.
// The count is the product of the four degrees, so that is all there is to keep; its deltas are rows (x, change).
#include "common.h"

int main(int argc, char** argv) {
  if (argc != 3) return 2;
  const std::string mode = argv[1];
  const std::vector<Update> updates = read_updates(argv[2]);
  std::vector<Word> degrees[4];
  for (auto& degree : degrees) degree.resize(count_vertices(updates));
  const bool check = mode == "check";
  std::uint64_t rows = 0, changes = 0;
  const Clock clock;
  for (const Update& u : updates) {
    const auto x = static_cast<std::size_t>(u.source);
    for (std::size_t i = 0; i < 4; ++i) {
      if (mode != "state") {
        Word change = u.weight;
        for (std::size_t j = 0; j < 4; ++j) change *= j == i ? 1 : degrees[j][x];
        rows += change != 0;
        if (check) changes += static_cast<std::uint64_t>(change) * static_cast<std::uint64_t>(u.source + 1);
      }
      degrees[i][x] += u.weight;
    }
  }
  const double seconds = clock.seconds();
  std::uint64_t net[3] = {};
  for (std::size_t x = 0; x < degrees[0].size(); ++x) {
    const auto count = static_cast<std::uint64_t>(degrees[0][x] * degrees[1][x] * degrees[2][x] * degrees[3][x]);
    net[0] += count != 0;
    net[1] += count != 0 ? x : 0;
    net[2] += count;
  }
  std::printf("{\"mode\": \"%s\", \"updates\": %zu, \"rows\": %zu, \"seconds\": %.6f, \"peak\": %zu, ", argv[1],
              updates.size(), static_cast<std::size_t>(rows), seconds, peak_memory());
  std::printf("\"sums\": [%lld], \"net\": [%llu, %llu, %llu]}\n", static_cast<long long>(changes),
              static_cast<unsigned long long>(net[0]), static_cast<unsigned long long>(net[1]),
              static_cast<unsigned long long>(net[2]));
}

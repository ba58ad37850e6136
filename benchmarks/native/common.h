// What the hand-written programs share: the updates, the lists of neighbours, the columns that deltas are written to.
// A program is run as `program MODE UPDATES`: UPDATES is a file of (source, target, +1 or -1) as 64-bit integers; MODE is
// `deltas` (every row of every update's delta is written into columns, a slice at a time), `check` (the same, and the
// columns are summed up) or `state` (only the lists are kept up to date). It prints one line of JSON; of a check, `net` is
// the final result's number of rows and the sum of each of its columns, modulo 2^64.
#pragma once

#include <algorithm>
#include <time.h>

#include <cstdint>
#include <cstdio>
#include <cstring>
#include <fstream>
#include <string>
#include <vector>

using Word = std::int64_t;

struct Update {
  Word source, target, weight;
};

// A vertex's neighbours, oldest first. Windows delete the oldest, so that is looked for from the front.
class Neighbours {
 public:
  void add(Word vertex) { list_.push_back(vertex); }
  void remove(Word vertex) {
    std::size_t at = first_;
    while (list_[at] != vertex) ++at;
    for (; at > first_; --at) list_[at] = list_[at - 1];
    if (++first_ * 2 > list_.size()) {
      list_.erase(list_.begin(), list_.begin() + static_cast<std::ptrdiff_t>(first_));
      first_ = 0;
    }
  }
  const Word* begin() const { return list_.data() + first_; }
  const Word* end() const { return list_.data() + list_.size(); }
  std::size_t size() const { return list_.size() - first_; }

 private:
  std::vector<Word> list_;
  std::size_t first_ = 0;
};

// The most memory that the program has held, in bytes. (getrusage would count what forked it.)
inline std::size_t peak_memory() {
  std::ifstream status("/proc/self/status");
  for (std::string word; status >> word;) {
    std::size_t kilobytes = 0;
    if (word == "VmHWM:" && status >> kilobytes) return kilobytes * 1024;
  }
  return 0;
}

// Delta rows by columns: the vertices, the weight, the update's position. A full slice is handed over, here to nobody.
template <std::size_t kVertices>
class Deltas {
 public:
  static constexpr std::size_t kColumns = kVertices + 2;
  static constexpr std::size_t kSlice = std::size_t{1} << 16;

  explicit Deltas(bool check) : check_(check) {
    for (auto& column : columns_) column.resize(kSlice);
  }
  // One vertex of the rows comes from a list, the others are given (the one in its place is ignored).
  void add(const Word (&vertices)[kVertices], std::size_t listed, const Neighbours& list, Word weight, Word update) {
    const Word* from = list.begin();
    std::size_t left = list.size();
    while (left != 0) {
      if (size_ == kSlice) hand_over();
      const std::size_t count = left < kSlice - size_ ? left : kSlice - size_;
      for (std::size_t c = 0; c < kVertices; ++c) {
        Word* const to = columns_[c].data() + size_;
        if (c == listed) {
          std::memcpy(to, from, count * sizeof(Word));
        } else {
          for (std::size_t i = 0; i < count; ++i) to[i] = vertices[c];
        }
      }
      Word* const weights = columns_[kVertices].data() + size_;
      Word* const updates = columns_[kVertices + 1].data() + size_;
      for (std::size_t i = 0; i < count; ++i) weights[i] = weight;
      for (std::size_t i = 0; i < count; ++i) updates[i] = update;
      size_ += count;
      from += count;
      left -= count;
    }
  }
  // A single row.
  void add(const Word (&vertices)[kVertices], Word weight, Word update) {
    if (size_ == kSlice) hand_over();
    for (std::size_t c = 0; c < kVertices; ++c) columns_[c][size_] = vertices[c];
    columns_[kVertices][size_] = weight;
    columns_[kVertices + 1][size_] = update;
    ++size_;
  }
  void hand_over() {
    rows_ += size_;
    for (std::size_t i = 0; check_ && i < size_; ++i) {
      std::uint64_t product = 1;
      for (std::size_t c = 0; c < kColumns; ++c) {
        const auto word = static_cast<std::uint64_t>(columns_[c][i]);
        sums_[c] += word;
        if (c <= kVertices) product *= word;
      }
      const auto weight = static_cast<std::uint64_t>(columns_[kVertices][i]);
      net_[0] += weight;
      for (std::size_t c = 0; c < kVertices; ++c) net_[c + 1] += static_cast<std::uint64_t>(columns_[c][i]) * weight;
      sums_[kColumns] += product;
    }
    size_ = 0;
  }
  void print(const char* mode, std::size_t updates, double seconds) {
    hand_over();
    std::printf("{\"mode\": \"%s\", \"updates\": %zu, \"rows\": %zu, \"seconds\": %.6f, \"peak\": %zu, \"sums\": [", mode,
                updates, rows_, seconds, peak_memory());
    for (std::size_t c = 0; check_ && c <= kColumns; ++c) {
      std::printf(c == 0 ? "%lld" : ", %lld", static_cast<long long>(sums_[c]));
    }
    std::printf("], \"net\": [");
    for (std::size_t c = 0; check_ && c <= kVertices; ++c) {
      std::printf(c == 0 ? "%llu" : ", %llu", static_cast<unsigned long long>(net_[c]));
    }
    std::printf("]}\n");
  }

 private:
  std::vector<Word> columns_[kColumns];
  std::size_t size_ = 0;
  std::size_t rows_ = 0;
  bool check_;
  std::uint64_t sums_[kColumns + 1] = {};
  std::uint64_t net_[kVertices + 1] = {};
};

inline std::vector<Update> read_updates(const char* path) {
  std::ifstream file(path, std::ios::binary | std::ios::ate);
  std::vector<Update> updates(static_cast<std::size_t>(file.tellg()) / sizeof(Update));
  file.seekg(0);
  file.read(reinterpret_cast<char*>(updates.data()), static_cast<std::streamsize>(updates.size() * sizeof(Update)));
  return updates;
}

inline std::size_t count_vertices(const std::vector<Update>& updates) {
  Word most = 0;
  for (const Update& u : updates) most = std::max({most, u.source, u.target});
  return static_cast<std::size_t>(most) + 1;
}

class Clock {
 public:
  double seconds() const {
    return now() - start_;
  }

 private:
  static double now() {
    timespec t{};
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t);
    return static_cast<double>(t.tv_sec) + 1e-9 * static_cast<double>(t.tv_nsec);
  }
  double start_ = now();
};

// The columns of a change feed that say what happened to each row, made from the rows' weights in one pass.
#pragma once

#include <array>
#include <cstring>
#include <optional>

#include "channel.h"

namespace everview {

struct ChangeColumns {
  Column kinds;                  // Bytes, packed into words: "insert" or "delete", six a row.
  std::optional<Column> counts;  // How many copies; none if each row is one.
};

inline Column pooled_column(std::size_t size) {
  const BufferPool::Buffer buffer = BufferPool::shared().take_fitting(std::max<std::size_t>(size, 1));
  const std::size_t capacity = buffer.capacity;
  return {{buffer.words, [capacity](Word* words) { BufferPool::shared().give({words, capacity}); }}, size};
}

// One word again and again.
inline Column constant_column(Word word, std::size_t rows) {
  Column made = pooled_column(rows);
  std::fill_n(made.words.get(), rows, word);
  return made;
}

inline ChangeColumns change_columns(const Word* weights, std::size_t rows) {
  static constexpr std::size_t kName = 6;
  static constexpr std::size_t kRun = 32;  // Rows that are looked at together: neighbours mostly have one weight.
  static constexpr char kComes[] = "insert\0", kGoes[] = "delete\0";  // As long as a word, to be written in one go:
  ChangeColumns made;                                                 // the next row's name overwrites the rest.
  made.kinds = pooled_column((rows * kName + sizeof(Word) - kName + sizeof(Word) - 1) / sizeof(Word));
  std::array<char, kRun * kName> all_come, all_go;
  for (std::size_t i = 0; i < all_come.size(); ++i) {
    all_come[i] = kComes[i % kName];
    all_go[i] = kGoes[i % kName];
  }
  std::uint64_t comes = 0, goes = 0;
  std::memcpy(&comes, kComes, sizeof comes);
  std::memcpy(&goes, kGoes, sizeof goes);
  auto* out = reinterpret_cast<char*>(made.kinds.words.get());
  bool single = true;
  for (std::size_t i = 0; i < rows;) {
    const std::size_t end = std::min(rows, i + kRun);
    Word others = 0;
    for (std::size_t j = i; j < end; ++j) others |= weights[j] ^ weights[i];
    if (others == 0 && end - i == kRun) {
      single &= weights[i] == 1 || weights[i] == -1;
      std::memcpy(out, weights[i] > 0 ? all_come.data() : all_go.data(), kRun * kName);
      out += kRun * kName;
      i = end;
      continue;
    }
    for (; i < end; ++i, out += kName) {
      single &= weights[i] == 1 || weights[i] == -1;
      const std::uint64_t name = weights[i] > 0 ? comes : goes;
      std::memcpy(out, &name, sizeof name);
    }
  }
  if (!single) {
    made.counts = pooled_column(rows);
    Word* const counts = made.counts->words.get();
    for (std::size_t i = 0; i < rows; ++i) {
      const auto weight = static_cast<std::uint64_t>(weights[i]);
      counts[i] = static_cast<Word>(weights[i] < 0 ? 0 - weight : weight);
    }
  }
  return made;
}

}  // namespace everview

// A unit's state as one run of words, and back.
#pragma once

#include "machine.h"

namespace everview {

// Header: magic, version, the program's fingerprint, how many words follow, their checksum. Then, for each table: its
// number of rows, their words and levels, and how many words its indexes take; for each that is stored: the number of
// groups, their sizes, and the rows of each in order. Numbers smaller than a word are packed, and padded with zeros.
namespace snapshot {

inline constexpr Word kMagic = 0x5453565745495645;  // "EVIEWVST"
inline constexpr Word kVersion = 3;
inline constexpr std::size_t kHeader = 5;

inline Word checksum(const Word* words, std::size_t size) noexcept {
  Hasher hasher;
  for (std::size_t i = 0; i < size; ++i) hasher.add(words[i]);
  return static_cast<Word>(hasher.value());
}

class Writer {
 public:
  void word(std::size_t value) {
    out_.make_room(1);
    out_.push_back(static_cast<Word>(value));
  }

  template <class T>
  void packed(const T* items, std::size_t size) {
    const std::size_t words = (size * sizeof(T) + sizeof(Word) - 1) / sizeof(Word);
    out_.make_room(words);
    if (words != 0) out_.end()[words - 1] = 0;
    if (size != 0) std::memcpy(out_.end(), items, size * sizeof(T));
    out_.resize(out_.size() + words);
  }

  // All words, then all levels.
  void rows(const Table& table) {
    out_.make_room(table.size() * table.width());
    Array<std::uint8_t> levels;
    levels.make_room(table.size());
    for (std::size_t i = 0; i < table.size(); ++i) {
      const Row row = static_cast<Row>(i);
      for (std::size_t c = 0; c < table.width(); ++c) out_.push_back(table.words(row)[c]);
      levels.push_back(table.level(row));
    }
    packed(levels.data(), levels.size());
  }

  Array<Word>& words() noexcept { return out_; }

 private:
  Array<Word> out_;
};

[[noreturn]] inline void refuse(const char* why) { throw std::invalid_argument(std::string("bad snapshot: ") + why); }

class Reader {
 public:
  Reader(const Word* words, std::size_t size) : at_(words), end_(words + size) {}

  std::size_t word() { return static_cast<std::size_t>(*words(1)); }

  // `count` numbers of type T; `count` may be any lie.
  template <class T>
  const T* packed(std::size_t count, std::size_t width = 1) {
    const auto left = static_cast<std::size_t>(end_ - at_) * sizeof(Word) / sizeof(T);
    if (width != 0 && count > left / width) refuse("it ends early");
    return reinterpret_cast<const T*>(words((count * width * sizeof(T) + sizeof(Word) - 1) / sizeof(Word)));
  }

  bool at_end() const noexcept { return at_ == end_; }
  std::size_t left() const noexcept { return static_cast<std::size_t>(end_ - at_); }

 private:
  const Word* words(std::size_t size) {
    if (size > static_cast<std::size_t>(end_ - at_)) refuse("it ends early");
    return std::exchange(at_, at_ + size);
  }

  const Word* at_;
  const Word* end_;
};

inline Array<Word> write(const Unit& unit) {
  Writer writer;
  for (std::size_t i = 0; i < kHeader; ++i) writer.word(0);
  for (const Table& table : unit.program().tables) {
    const std::size_t rows = table.size();
    writer.word(rows);
    writer.rows(table);
    const std::size_t before = writer.words().size();
    writer.word(0);
    for (const GroupIndex& index : table.stored_indexes()) {
      Array<Row> sizes;
      Array<Row> members;
      members.make_room(rows);
      index.each_group([&](std::span<const Row> group) {
        sizes.make_room(1);
        sizes.push_back(static_cast<Row>(group.size()));
        std::copy(group.begin(), group.end(), members.end());
        members.resize(members.size() + group.size());
      });
      writer.word(sizes.size());
      writer.packed(sizes.data(), sizes.size());
      writer.packed(members.data(), members.size());
    }
    writer.words()[before] = static_cast<Word>(writer.words().size() - before - 1);
  }
  Array<Word> words = std::move(writer.words());
  const std::size_t size = words.size() - kHeader;
  words[0] = kMagic;
  words[1] = kVersion;
  words[2] = static_cast<Word>(unit.program().fingerprint);
  words[3] = static_cast<Word>(size);
  words[4] = checksum(words.data() + kHeader, size);
  return words;
}

inline void read_table(Reader& reader, Table& table) {
  const std::size_t rows = reader.word();
  if (rows > kMaxRows) refuse("too many rows");
  const Word* const words = reader.packed<Word>(rows, table.width());
  const auto* const levels = reader.packed<std::uint8_t>(rows);
  if (!table.load(rows, words, levels)) refuse("a key is there twice, or a row on no level");
  const std::size_t extent = reader.word();
  const std::size_t left = reader.left();
  for (std::size_t i = 0; i < table.stored_indexes().size(); ++i) {
    const std::size_t groups = reader.word();
    const Row* const sizes = reader.packed<Row>(groups);
    std::size_t total = 0;
    for (std::size_t g = 0; g < groups; ++g) total += sizes[g];
    if (total != rows) refuse("an index does not hold each row once");
    const Row* members = reader.packed<Row>(rows);
    for (std::size_t g = 0; g < groups; ++g) {
      if (!table.load_group(i, {members, sizes[g]})) refuse("an index's groups are wrong");
      members += sizes[g];
    }
  }
  if (left - reader.left() != extent) refuse("a table's indexes take other room than it says");
}

// The tables of a snapshot; throws std::invalid_argument unless it is whole and of this program.
inline std::vector<Table> read(const Word* words, std::size_t size, const Program& program) {
  if (size < kHeader || words[0] != kMagic) refuse("it is none");
  if (words[1] != kVersion) refuse("it is of another version");
  if (words[2] != static_cast<Word>(program.fingerprint)) refuse("it is of another program");
  if (words[3] != static_cast<Word>(size - kHeader)) refuse("its length is wrong");
  if (words[4] != checksum(words + kHeader, size - kHeader)) refuse("its checksum is wrong");
  Reader reader(words + kHeader, size - kHeader);
  std::vector<Table> tables;
  for (const Table& table : program.tables) {
    tables.push_back(table.fresh());
    read_table(reader, tables.back());
  }
  if (!reader.at_end()) refuse("there is more after the end");
  return tables;
}

}  // namespace snapshot
}  // namespace everview

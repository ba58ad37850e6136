// A unit's state as a run of words, written and read block by block, and so with little memory beside the state.
#pragma once

#include "machine.h"

namespace everview {

// Each block has a header: magic, version, the program's fingerprint, how many words follow, their checksum; then the number
// of a table and what of it follows. First come all rows of the table (what: kRows): how many it has, how many are in this
// block, their words, their levels; then, index by index of those that are stored (what: its number), groups: how many, their
// sizes, and the rows of each in order. Then the next table. A table without rows has one block. Numbers smaller than a word
// are packed, and padded with zeros.
namespace snapshot {

inline constexpr Word kMagic = 0x5453565745495645;  // "EVIEWVST"
inline constexpr Word kVersion = 4;
inline constexpr std::size_t kHeader = 5;
inline constexpr Word kRows = -1;
inline constexpr std::size_t kBlock = std::size_t{1} << 17;  // Words of rows, or numbers of rows, in a block: about 1 MB.

inline Word checksum(const Word* words, std::size_t size) noexcept {
  Hasher hasher;
  for (std::size_t i = 0; i < size; ++i) hasher.add(words[i]);
  return static_cast<Word>(hasher.value());
}

// The blocks of a unit, which must not change meanwhile, one after the other. `most` bounds them: a row or a group is in one.
class Writer {
 public:
  explicit Writer(const Unit& unit, std::size_t most = kBlock) : unit_(unit), version_(unit.version()), most_(most) {}

  std::uint64_t version() const noexcept { return version_; }

  // Appends the next block; false if there is none.
  bool next(Array<Word>& out) {
    if (table_ == unit_.program().tables.size()) return false;
    const std::size_t begin = out.size();
    out.make_room(kHeader + 2);
    out.resize(begin + kHeader);
    const Table& table = unit_.program().tables[table_];
    out.push_back(static_cast<Word>(table_));
    out.push_back(what_);
    what_ == kRows ? rows(table, out) : groups(table, out);
    Word* const header = out.begin() + begin;
    const std::size_t size = out.size() - begin - kHeader;
    header[0] = kMagic;
    header[1] = kVersion;
    header[2] = static_cast<Word>(unit_.program().fingerprint);
    header[3] = static_cast<Word>(size);
    header[4] = checksum(header + kHeader, size);
    return true;
  }

 private:
  static void word(Array<Word>& out, std::size_t value) {
    out.make_room(1);
    out.push_back(static_cast<Word>(value));
  }

  template <class T>
  static void packed(Array<Word>& out, const Array<T>& items) {
    const std::size_t words = (items.size() * sizeof(T) + sizeof(Word) - 1) / sizeof(Word);
    out.make_room(words);
    if (words != 0) out.end()[words - 1] = 0;
    if (items.size() != 0) std::memcpy(out.end(), items.data(), items.size() * sizeof(T));
    out.resize(out.size() + words);
  }

  // All words, then all levels.
  void rows(const Table& table, Array<Word>& out) {
    const std::size_t most = std::max<std::size_t>(1, most_ / std::max<std::size_t>(1, table.width()));
    const std::size_t count = std::min(table.size() - at_, most);
    word(out, table.size());
    word(out, count);
    out.make_room(count * table.width());
    Array<std::uint8_t> levels;
    levels.make_room(count);
    for (const std::size_t end = at_ + count; at_ < end; ++at_) {
      const Row row = static_cast<Row>(at_);
      for (std::size_t c = 0; c < table.width(); ++c) out.push_back(table.words(row)[c]);
      levels.push_back(table.level(row));
    }
    packed(out, levels);
    if (at_ == table.size()) go_on(table);
  }

  void groups(const Table& table, Array<Word>& out) {
    Array<Row> sizes;
    Array<Row> members;
    group_ = table.stored_indexes()[static_cast<std::size_t>(what_)].each_group(group_, [&](std::span<const Row> group) {
      sizes.make_room(1);
      sizes.push_back(static_cast<Row>(group.size()));
      members.make_room(group.size());
      std::copy(group.begin(), group.end(), members.end());
      members.resize(members.size() + group.size());
      return members.size() < most_;
    });
    word(out, sizes.size());
    packed(out, sizes);
    packed(out, members);
    at_ += members.size();
    if (at_ == table.size()) go_on(table);
  }

  void go_on(const Table& table) noexcept {
    at_ = 0;
    group_ = 0;
    ++what_;
    if (table.size() != 0 && static_cast<std::size_t>(what_) < table.stored_indexes().size()) return;
    what_ = kRows;
    ++table_;
  }

  const Unit& unit_;
  std::uint64_t version_;
  std::size_t most_;
  std::size_t table_ = 0;
  Word what_ = kRows;
  std::size_t at_ = 0;  // Rows of it that are written.
  Row group_ = 0;       // The index's next group.
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

 private:
  const Word* words(std::size_t size) {
    if (size > static_cast<std::size_t>(end_ - at_)) refuse("it ends early");
    return std::exchange(at_, at_ + size);
  }

  const Word* at_;
  const Word* end_;
};

// Makes the tables of a snapshot from its blocks; throws std::invalid_argument as soon as one cannot be the next of them.
class Loader {
 public:
  explicit Loader(const Program& program) : program_(program) { begin_table(); }
  Loader(const Loader&) = delete;
  Loader& operator=(const Loader&) = delete;

  // Takes in the block that begins here; gives how many words it has.
  std::size_t add(const Word* words, std::size_t size) {
    if (size < kHeader || words[0] != kMagic) refuse("it is none");
    if (words[1] != kVersion) refuse("it is of another version");
    if (words[2] != static_cast<Word>(program_.fingerprint)) refuse("it is of another program");
    if (words[3] < 0 || static_cast<std::size_t>(words[3]) > size - kHeader) refuse("its length is wrong");
    const auto length = static_cast<std::size_t>(words[3]);
    if (words[4] != checksum(words + kHeader, length)) refuse("its checksum is wrong");
    if (is_whole()) refuse("there is more after the end");
    Reader reader(words + kHeader, length);
    if (reader.word() != tables_.size() - 1) refuse("its tables are not in order");
    if (reader.word() != static_cast<std::size_t>(what_)) refuse("a table's rows and indexes are not in order");
    what_ == kRows ? rows(reader) : groups(reader);
    if (!reader.at_end()) refuse("a block takes other room than it says");
    return kHeader + length;
  }

  bool is_whole() const noexcept { return is_whole_; }

  // All tables, when they are whole.
  std::vector<Table> take() {
    if (!is_whole()) refuse("it ends early");
    return std::move(tables_);
  }

 private:
  void begin_table() {
    what_ = kRows;
    rows_ = kUnknown;
    at_ = 0;
    is_whole_ = tables_.size() == program_.tables.size();
    if (!is_whole_) tables_.push_back(program_.tables[tables_.size()].fresh());
  }

  void rows(Reader& reader) {
    Table& table = tables_.back();
    const std::size_t all = reader.word();
    const std::size_t count = reader.word();
    if (all > kMaxRows) refuse("too many rows");
    if (rows_ != kUnknown && rows_ != all) refuse("a table's blocks differ in its number of rows");
    rows_ = all;
    if (count > all - at_ || (count == 0 && all != 0)) refuse("a block has more rows than its table, or none");
    const Word* const words = reader.packed<Word>(count, table.width());
    const auto* const levels = reader.packed<std::uint8_t>(count);
    if (!table.load_rows(count, words, levels)) refuse("a key is there twice, or a row on no level");
    at_ += count;
    if (at_ != rows_) return;
    table.finish_rows();
    go_on();
  }

  void groups(Reader& reader) {
    const std::size_t count = reader.word();
    const Row* const sizes = reader.packed<Row>(count);
    std::size_t total = 0;
    for (std::size_t g = 0; g < count; ++g) total += sizes[g];
    if (total > rows_ - at_ || total == 0) refuse("an index does not hold each row once");
    const Row* members = reader.packed<Row>(total);
    for (std::size_t g = 0; g < count; ++g) {
      if (!tables_.back().load_group(static_cast<std::size_t>(what_), {members, sizes[g]})) {
        refuse("an index's groups are wrong");
      }
      members += sizes[g];
    }
    at_ += total;
    if (at_ == rows_) go_on();
  }

  void go_on() {
    at_ = 0;
    ++what_;
    if (rows_ == 0 || static_cast<std::size_t>(what_) >= tables_.back().stored_indexes().size()) begin_table();
  }

  static constexpr std::size_t kUnknown = std::numeric_limits<std::size_t>::max();

  const Program& program_;
  std::vector<Table> tables_;
  bool is_whole_ = false;
  Word what_ = kRows;
  std::size_t rows_ = kUnknown;  // Of the table that is being made.
  std::size_t at_ = 0;           // Of these: how many have come, as rows or in an index.
};

// All blocks, and the tables of all blocks.
inline Array<Word> write(const Unit& unit, std::size_t most = kBlock) {
  Array<Word> words;
  Writer writer(unit, most);
  while (writer.next(words)) {
  }
  return words;
}

inline std::vector<Table> read(const Word* words, std::size_t size, const Program& program) {
  Loader loader(program);
  while (size != 0) {
    const std::size_t taken = loader.add(words, size);
    words += taken;
    size -= taken;
  }
  return loader.take();
}

}  // namespace snapshot
}  // namespace everview

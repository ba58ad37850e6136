// What a batch has changed in a unit's tables, so that all of it can be taken back.
#pragma once

#include <memory>
#include <vector>

#include "row_store.h"

namespace everview {

// What the logs of all units of a machine may take together, and blocks that are ready to be used again.
class LogBudget {
 public:
  static constexpr std::size_t kBlock = 8192;  // Words.

  struct Block {
    std::unique_ptr<Word[]> words;
    std::size_t capacity = 0;
    std::size_t used = 0;
  };

  std::size_t nbytes() const noexcept { return bytes_ + ready_.size() * kBlock * sizeof(Word); }
  std::size_t used() const noexcept { return bytes_; }
  void set_most(std::size_t bytes) noexcept { most_ = bytes; }

  // A block for so many words; none, if that is beyond what there may be.
  Block take(std::size_t capacity) {
    if (bytes_ + capacity * sizeof(Word) > most_) return {};
    Block block;
    if (capacity == kBlock && !ready_.empty()) {
      block.words = std::move(ready_.back());
      ready_.pop_back();
    } else {
      block.words.reset(new Word[capacity]);
    }
    block.capacity = capacity;
    bytes_ += capacity * sizeof(Word);
    return block;
  }

  void give_back(Block block) noexcept {
    bytes_ -= block.capacity * sizeof(Word);
    if (block.capacity == kBlock && ready_.size() < ready_.capacity()) ready_.push_back(std::move(block.words));
  }

  // Keeps a few blocks from batch to batch: new memory costs more than what is written into it.
  void keep_some() { ready_.reserve(kReady); }

 private:
  static constexpr std::size_t kReady = 64;

  std::size_t bytes_ = 0;
  std::size_t most_ = std::numeric_limits<std::size_t>::max();
  std::vector<std::unique_ptr<Word[]>> ready_;
};

// The rows of a table that the log knows: what they were before the batch need not be written again.
class RowMarks {
 public:
  std::size_t nbytes() const noexcept { return bits_.nbytes() + set_.nbytes(); }
  bool empty() const noexcept { return set_.empty(); }
  bool has(Row row) const noexcept { return row / 64 < bits_.size() && (bits_[row / 64] >> (row % 64) & 1) != 0; }

  // After it, marking one of the first `rows` rows, and moving the mark of another to it, cannot fail.
  void make_room(std::size_t rows) {
    set_.make_room(2);
    const std::size_t words = (rows + 63) / 64;
    if (words <= bits_.size()) return;
    const std::size_t before = bits_.size();
    bits_.make_room(words - before);
    bits_.resize(words);
    std::fill(bits_.begin() + before, bits_.end(), 0);
  }
  void set(Row row) noexcept {
    std::uint64_t& word = bits_[row / 64];
    if (word == 0) set_.push_back(row / 64);
    word |= std::uint64_t{1} << (row % 64);
  }
  // The last row has another's number from now on.
  void move(Row from, Row to) noexcept {
    const bool is_set = has(from);
    reset(from);
    if (from == to) return;
    is_set ? set(to) : reset(to);
  }
  void clear(std::size_t rows) noexcept {
    for (const Row word : set_) bits_[word] = 0;
    set_.release();
    bits_.resize(std::min(bits_.size(), (rows + 63) / 64));
    bits_.nbytes() <= kSmall ? bits_.release() : bits_.give_back();
  }

 private:
  // A word that becomes 0 may be listed again; words are listed at most once for each time that they are marked.
  void reset(Row row) noexcept {
    if (row / 64 < bits_.size()) bits_[row / 64] &= ~(std::uint64_t{1} << (row % 64));
  }

  static constexpr std::size_t kSmall = 4096;  // Bytes that are made anew as quickly as they are kept.

  Array<std::uint64_t> bits_;
  Array<Row> set_;  // The words that are not 0.
};

// A stack of rows as they were, in blocks that stay where they are. A record is a row's words, two to a word if all are
// narrow, and a header; it says by which key the row is found, so nothing in a table need stay where it was. Beyond what
// the budget allows the log is lost, and whoever holds the unit must have another way back.
class BatchLog {
 public:
  enum class Kind : std::uint8_t {
    kCame,  // A row with this key was inserted.
    kWent,  // This row was removed.
    kWas,   // The row with this key had these values, and was on this level.
  };

  struct Record {
    Kind kind;
    std::uint32_t table;
    std::uint8_t level;
    std::vector<Word> words;
  };

  struct Mark {
    std::size_t blocks;
    std::size_t used;
  };

  explicit BatchLog(LogBudget& budget) noexcept : budget_(budget) {}
  BatchLog(const BatchLog&) = delete;
  BatchLog& operator=(const BatchLog&) = delete;
  ~BatchLog() { clear(); }

  bool is_lost() const noexcept { return lost_; }
  void lose() noexcept {
    clear();
    lost_ = true;
  }
  void clear() noexcept {
    while (!blocks_.empty()) drop_block();
    lost_ = false;
  }

  // Room for a row of so many words; false if the log is lost.
  bool make_room(std::size_t width) {
    if (lost_) return false;
    if (!blocks_.empty() && blocks_.back().capacity - blocks_.back().used > width) return true;
    blocks_.reserve(blocks_.size() + 1);
    LogBudget::Block block = budget_.take(std::max(width + 1, next_capacity()));
    if (block.words == nullptr) {
      lose();
      return false;
    }
    blocks_.push_back(std::move(block));
    return true;
  }

  // Words are anything that has a word at 0, 1, …; room has been made.
  template <class Words>
  void push(Kind kind, std::uint32_t table, std::uint8_t level, const Words& words, std::size_t width) noexcept {
    LogBudget::Block& block = blocks_.back();
    Word* const at = block.words.get() + block.used;
    bool narrow = true;
    for (std::size_t i = 0; i < width; ++i) narrow = narrow && is_narrow(words[i]);
    std::size_t size = width;
    if (narrow) {
      size = (width + 1) / 2;
      auto* const cells = reinterpret_cast<Cell*>(at);
      for (std::size_t i = 0; i < width; ++i) cells[i] = cell_of(words[i]);
    } else {
      for (std::size_t i = 0; i < width; ++i) at[i] = words[i];
    }
    at[size] = static_cast<Word>(std::uint64_t{width} << 40 | std::uint64_t{table} << 16 | std::uint64_t{level} << 8 |
                                 std::uint64_t{narrow} << 4 | static_cast<std::uint64_t>(kind));
    block.used += size + 1;
  }

  // The last record; false if there is none.
  bool pop(Record& record) {
    while (!blocks_.empty() && blocks_.back().used == 0) drop_block();
    if (blocks_.empty()) return false;
    LogBudget::Block& block = blocks_.back();
    const auto header = static_cast<std::uint64_t>(block.words[block.used - 1]);
    const auto width = static_cast<std::size_t>(header >> 40);
    const bool narrow = (header >> 4 & 1) != 0;
    record.words.resize(width);
    const std::size_t size = narrow ? (width + 1) / 2 : width;
    const Word* const at = block.words.get() + block.used - 1 - size;
    const auto* const cells = reinterpret_cast<const Cell*>(at);
    for (std::size_t i = 0; i < width; ++i) record.words[i] = narrow ? word_of(cells[i]) : at[i];
    record.kind = static_cast<Kind>(header & 0xf);
    record.level = static_cast<std::uint8_t>(header >> 8);
    record.table = static_cast<std::uint32_t>(header >> 16) & 0xffffff;
    block.used -= size + 1;
    return true;
  }

  Mark mark() const noexcept { return {blocks_.size(), blocks_.empty() ? 0 : blocks_.back().used}; }
  void cut(Mark mark) noexcept {  // A lost log stays lost.
    if (lost_) return;
    while (blocks_.size() > mark.blocks) drop_block();
    if (!blocks_.empty()) blocks_.back().used = mark.used;
  }

 private:
  // Most batches are small, and a database has many units: the first blocks are small, too.
  std::size_t next_capacity() const noexcept {
    return blocks_.size() >= 4 ? LogBudget::kBlock : std::size_t{64} << (2 * blocks_.size());
  }

  void drop_block() noexcept {
    budget_.give_back(std::move(blocks_.back()));
    blocks_.pop_back();
  }

  LogBudget& budget_;
  std::vector<LogBudget::Block> blocks_;
  bool lost_ = false;
};

}  // namespace everview

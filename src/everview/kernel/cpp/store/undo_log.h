// What an update has changed, so that it can be taken back.
#pragma once

#include "batch_log.h"

namespace everview {

// A stack of records of words; a record's last word says what it is and of which table, so that it is read from its
// end. Tables write and read their own records.
class UndoLog {
 public:
  enum class Kind : std::uint8_t { kStore, kInsert, kRemove, kRaise, kLower };

  struct Header {
    Kind kind;
    std::uint32_t table;
  };

  // Where changes go that may have to be taken back after the update, too; none outside of a batch.
  BatchLog* batch = nullptr;
  // Whether rows of a table have been laid out anew, which changes its bytes though none has come or gone.
  bool rearranged = false;

  std::size_t size() const noexcept { return words_.size(); }
  std::size_t nbytes() const noexcept { return words_.nbytes(); }
  bool empty() const noexcept { return words_.empty(); }
  const Word* at(std::size_t offset) const noexcept { return words_.data() + offset; }

  void make_room(std::size_t words) { words_.make_room(words); }
  void push(Word word) noexcept { words_.push_back(word); }
  void push(Header header) noexcept { push(Word{header.table} << 8 | static_cast<Word>(header.kind)); }
  Word pop() noexcept { return words_.pop_back(); }
  const Word* pop(std::size_t words) noexcept {
    words_.resize(words_.size() - words);
    return words_.end();
  }
  Header pop_header() noexcept {
    const Word word = pop();
    return {static_cast<Kind>(word & 0xff), static_cast<std::uint32_t>(word >> 8)};
  }

  void clear() noexcept { words_.resize(0); }
  void give_back() noexcept { words_.give_back(); }
  void release() noexcept { words_.release(); }

 private:
  Array<Word> words_;
};

}  // namespace everview

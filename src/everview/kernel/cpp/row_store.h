// A table's rows of words, in half the memory for as long as the words are small.
#pragma once

#include "array.h"

namespace everview {

// How a word is kept: in one 32-bit cell while the rows are narrow, in two once they are wide. The lowest word, which the
// layers above take for NULL, has the lowest cell for itself, so that it does not make rows wide.
using Cell = std::int32_t;

inline constexpr Word kLowestWord = std::numeric_limits<Word>::min();
inline constexpr Cell kLowestCell = std::numeric_limits<Cell>::min();

inline bool is_narrow(Word word) noexcept {
  return (word > kLowestCell && word <= std::numeric_limits<Cell>::max()) || word == kLowestWord;
}
inline Word word_of(Cell cell) noexcept { return cell == kLowestCell ? kLowestWord : Word{cell}; }
inline Cell cell_of(Word word) noexcept { return word == kLowestWord ? kLowestCell : static_cast<Cell>(word); }

// One row; valid until the rows move.
class RowRef {
 public:
  RowRef(const Cell* cells, bool wide) noexcept : cells_(cells), wide_(wide) {}

  Word operator[](std::size_t column) const noexcept {
    if (!wide_) return word_of(cells_[column]);
    Word word;
    std::memcpy(&word, cells_ + 2 * column, sizeof word);
    return word;
  }
  const Cell* cells() const noexcept { return cells_; }

 private:
  const Cell* cells_;
  bool wide_;
};

// Rows side by side in one array; valid until that array moves.
struct RowsView {
  const Cell* cells;
  std::size_t stride;  // Cells in a row.
  bool wide;
  bool plain;  // Narrow, and no cell stands for the lowest word: cells are the words.

  RowRef operator[](Row row) const noexcept { return {cells + row * stride, wide}; }
};

// Rows start narrow. The first word that does not fit makes all of them wide, and they stay so until none is left: what
// was in the rows before an update, and may have to be put back, always fits.
class RowStore {
 public:
  explicit RowStore(std::size_t width) noexcept : width_(width), stride_(width) {}

  std::size_t size() const noexcept { return size_; }
  std::size_t width() const noexcept { return width_; }
  std::size_t nbytes() const noexcept { return cells_.nbytes(); }
  RowsView view() const noexcept { return {cells_.data(), stride_, wide_, plain_}; }
  RowRef operator[](Row row) const noexcept { return view()[row]; }

  // After it, writing such words cannot fail.
  void make_fit(const Word* words, std::size_t count) {
    for (std::size_t i = 0; !wide_ && i < count; ++i) {
      if (words[i] == kLowestWord) plain_ = false;
      if (!is_narrow(words[i])) widen();
    }
  }
  void make_room(std::size_t rows) { cells_.make_room(rows * stride_); }

  void resize(std::size_t rows) noexcept {  // Within the room made; new rows are not written.
    size_ = rows;
    cells_.resize(rows * stride_);
  }

  void write(Row row, std::size_t column, Word word) noexcept {
    Cell* const at = cells_.data() + row * stride_ + column * (wide_ ? 2 : 1);
    if (wide_) {
      std::memcpy(at, &word, sizeof word);
    } else {
      *at = cell_of(word);
    }
  }
  void write(Row row, const Word* words) noexcept {
    for (std::size_t i = 0; i < width_; ++i) write(row, i, words[i]);
  }
  void copy(Row from, Row to) noexcept {
    const Cell* const old = cells_.data() + from * stride_;
    Cell* const own = cells_.data() + to * stride_;
    for (std::size_t i = 0; i < stride_; ++i) own[i] = old[i];
  }

  void release() noexcept {
    resize(0);
    cells_.release();
    set_wide(false);
  }

  void give_back() noexcept {
    cells_.give_back();
    if (size_ == 0) set_wide(false);
  }

 private:
  void set_wide(bool wide) noexcept {
    wide_ = wide;
    plain_ = !wide;
    stride_ = wide ? 2 * width_ : width_;
  }

  void widen() {
    Array<Cell> wide;
    wide.make_room(2 * cells_.capacity());  // Rows that the update has removed may come back.
    wide.resize(2 * cells_.size());
    for (std::size_t i = 0; i < cells_.size(); ++i) {
      const Word word = word_of(cells_[i]);
      std::memcpy(wide.data() + 2 * i, &word, sizeof word);
    }
    cells_.swap(wide);
    set_wide(true);
  }

  std::size_t width_;
  std::size_t stride_;
  std::size_t size_ = 0;
  bool wide_ = false;
  bool plain_ = true;
  Array<Cell> cells_;
};

}  // namespace everview

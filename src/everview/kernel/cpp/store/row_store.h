// A table's rows of words, in half the memory for as long as the words are small, and without what all rows share.
#pragma once

#include <vector>

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
  RowRef(const Cell* cells, bool wide, std::size_t stored, const Word* shared) noexcept
      : cells_(cells), wide_(wide), stored_(stored), shared_(shared) {}

  Word operator[](std::size_t column) const noexcept {
    if (column >= stored_) return shared_[column];
    if (!wide_) return word_of(cells_[column]);
    Word word;
    std::memcpy(&word, cells_ + 2 * column, sizeof word);
    return word;
  }
  const Cell* cells() const noexcept { return cells_; }

 private:
  const Cell* cells_;
  bool wide_;
  std::size_t stored_;
  const Word* shared_;
};

// Rows side by side in one array; valid until that array moves.
struct RowsView {
  const Cell* cells;
  std::size_t stride;  // Cells in a row.
  bool wide;
  bool plain;  // Narrow, and no cell stands for the lowest word: cells are the words.
  std::size_t stored;  // Columns from this one on have no cells:
  const Word* shared;  // all rows have these words there.

  RowRef operator[](Row row) const noexcept { return {cells + row * stride, wide, stored, shared}; }
};

// Rows start narrow. The first word that does not fit makes all of them wide, and they stay so until none is left: what
// was in the rows before an update, and may have to be put back, always fits. In the same way the last columns, beyond the
// key, have no cells until a row comes that differs there from the first one: weights mostly are 1 throughout.
class RowStore {
 public:
  RowStore(std::size_t key_width, std::size_t width)
      : width_(width), least_(std::min(width, std::max<std::size_t>(key_width, 1))), shared_(width) {
    start();
  }

  std::size_t size() const noexcept { return size_; }
  std::size_t width() const noexcept { return width_; }
  std::size_t nbytes() const noexcept { return cells_.nbytes(); }
  RowsView view() const noexcept { return {cells_.data(), stride_, wide_, plain_, stored_, shared_.data()}; }
  RowRef operator[](Row row) const noexcept { return view()[row]; }

  // After it, writing this word into that column cannot fail.
  void make_fit(std::size_t column, Word word) {
    if (!wide_) {
      if (word == kLowestWord) plain_ = false;
      if (!is_narrow(word)) widen();
    }
    if (column < stored_ || shared_[column] == word) return;
    if (is_new_) {
      shared_[column] = word;
    } else {
      store_up_to(column + 1);
    }
  }
  // The same for some words from a column on.
  void make_fit(std::size_t column, const Word* words, std::size_t count) {
    for (std::size_t i = 0; i < count; ++i) make_fit(column + i, words[i]);
  }
  // The same for whole rows, one after the other, into a store that is empty.
  void make_all_fit(const Word* words, std::size_t rows) {
    for (std::size_t i = 0; i < rows; ++i, is_new_ = false) make_fit(0, words + i * width_, width_);
  }
  void make_room(std::size_t rows) { cells_.make_room(rows * stride_); }

  void resize(std::size_t rows) noexcept {  // Within the room made; new rows are not written.
    size_ = rows;
    is_new_ = is_new_ && rows == 0;
    cells_.resize(rows * stride_);
  }

  void write(Row row, std::size_t column, Word word) noexcept {
    if (column >= stored_) return;  // It is what all rows have there.
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
    start();
  }

  void give_back() noexcept {
    cells_.give_back();
    if (size_ == 0) start();
  }

 private:
  // Without rows, and without any that may have to be put back.
  void start() noexcept {
    stored_ = least_;
    is_new_ = true;
    set_wide(false);
  }

  void set_wide(bool wide) noexcept {
    wide_ = wide;
    plain_ = !wide;
    stride_ = wide ? 2 * stored_ : stored_;
  }

  // Gives the columns before this one cells, in rows that are there and in those that the update has removed.
  void store_up_to(std::size_t columns) {
    const std::size_t each = wide_ ? 2 : 1;
    const std::size_t stride = columns * each;
    Array<Cell> more;
    more.make_room(cells_.capacity() / stride_ * stride);
    more.resize(size_ * stride);
    const std::size_t before = std::exchange(stored_, columns);
    const std::size_t old_stride = std::exchange(stride_, stride);
    cells_.swap(more);
    for (Row row = 0; row < size_; ++row) {
      std::copy_n(more.data() + row * old_stride, old_stride, cells_.data() + row * stride);
      for (std::size_t column = before; column < columns; ++column) write(row, column, shared_[column]);
    }
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
  std::size_t least_;  // Columns that always have cells.
  std::size_t stored_ = 0;
  std::size_t stride_ = 0;
  std::size_t size_ = 0;
  bool wide_ = false;
  bool plain_ = true;
  bool is_new_ = true;        // No row has come since `start`.
  std::vector<Word> shared_;  // By column; of those that have no cells.
  Array<Cell> cells_;
};

}  // namespace everview

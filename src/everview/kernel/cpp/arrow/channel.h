// Rows of words by columns, appended to and then handed over whole.
#pragma once

#include <memory>
#include <vector>

#include "buffer_pool.h"

namespace everview {

// A column's memory, shared by whoever reads it.
struct Column {
  std::shared_ptr<Word> words;
  std::size_t size = 0;
};

// One growing buffer a column, so that a reader gets the columns as they lie.
class Channel {
 public:
  explicit Channel(std::size_t width) : columns_(width) {}
  Channel(const Channel&) = delete;
  Channel(Channel&& other) noexcept
      : columns_(std::move(other.columns_)),
        size_(std::exchange(other.size_, 0)),
        capacity_(std::exchange(other.capacity_, 0)),
        taken_(other.taken_) {
    other.columns_.clear();
  }
  Channel& operator=(Channel&&) = delete;
  ~Channel() { clear(); }

  std::size_t width() const noexcept { return columns_.size(); }
  std::size_t size() const noexcept { return size_; }
  std::size_t nbytes() const noexcept {
    std::size_t words = 0;
    for (const Buffer& column : columns_) words += column.capacity;
    return words * sizeof(Word);
  }

  // Makes room for `extra` more rows; where the next one goes in a column is then at `end(column)`.
  void make_room(std::size_t extra) {
    if (capacity_ - size_ < extra) grow(size_ + extra);
  }
  Word* end(std::size_t column) noexcept { return columns_[column].words + size_; }
  void add_rows(std::size_t rows) noexcept { size_ += rows; }

  void truncate(std::size_t rows) noexcept { size_ = rows; }

  void clear() noexcept {
    for (Buffer& column : columns_) give_up(column);
    size_ = capacity_ = 0;
  }

  // Hands the columns over and starts anew. Columns that would waste much of their buffers are copied, and such buffers
  // are not kept: the next ones grow to the size that is needed now.
  std::vector<Column> take() {
    std::vector<Column> taken(columns_.size());
    for (std::size_t i = 0; i < columns_.size(); ++i) {
      const bool copied = size_ < columns_[i].capacity / 4;
      Buffer buffer = copied ? copy(columns_[i]) : std::exchange(columns_[i], {});
      try {
        const std::size_t capacity = buffer.capacity;
        taken[i].words = {buffer.words, [capacity](Word* words) { BufferPool::shared().give({words, capacity}); }};
      } catch (const std::bad_alloc&) {  // The buffer has been given back.
        for (Buffer& column : columns_) give_up(column);
        size_ = capacity_ = 0;
        throw;
      }
      taken[i].size = size_;
      if (copied) BufferPool::shared().drop(std::exchange(columns_[i], {}));
    }
    taken_ = size_;
    clear();
    return taken;
  }

 private:
  using Buffer = BufferPool::Buffer;
  static constexpr std::size_t kMinCapacity = 64;
  static constexpr std::size_t kLarge = std::size_t{1} << 14;  // From here on memory counts for more than growing seldom.

  static void give_up(Buffer& column) noexcept {
    BufferPool::shared().give(std::exchange(column, {}));
  }

  Buffer copy(const Buffer& column) const {
    const Buffer buffer = BufferPool::shared().take_fitting(std::max<std::size_t>(size_, 1));
    std::copy_n(column.words, size_, buffer.words);
    return buffer;
  }

  void grow(std::size_t needed) {
    std::size_t least = std::numeric_limits<std::size_t>::max();
    for (Buffer& column : columns_) {
      std::size_t usual = 0;
      if (column.words == nullptr) {
        usual = taken_ + taken_ / 8;
        column = BufferPool::shared().take(needed, std::max(needed, usual));
      }
      if (column.capacity < needed) {
        const std::size_t more = capacity_ / (capacity_ < kLarge ? 1 : 4);  // Columns that have grown already
        BufferPool::shared().grow(column, std::max({needed, capacity_ + more, usual, kMinCapacity}));  // may keep it.
      }
      least = std::min(least, column.capacity);
    }
    capacity_ = least;
  }

  std::vector<Buffer> columns_;
  std::size_t size_ = 0;
  std::size_t capacity_ = 0;  // Of the smallest column's buffer.
  std::size_t taken_ = 0;     // Rows that were taken last: about as many may be wanted again.
};

}  // namespace everview

// Emptied column buffers, kept for the next columns.
#pragma once

#include <mutex>
#include <vector>

#include "../store/array.h"

namespace everview {

// Memory new to the process has to be mapped and zeroed page by page, which takes longer than computing what goes into
// it. So the buffers of columns that nobody reads any more are kept, for all machines of the process: with those that are
// in use no more than were in use at a time lately, and up to a limit.
class BufferPool {
 public:
  struct Buffer {
    Word* words = nullptr;
    std::size_t capacity = 0;

    std::size_t nbytes() const noexcept { return capacity * sizeof(Word); }
  };

  static BufferPool& shared() {
    static auto* const pool = new BufferPool;  // Never destroyed: columns may outlive everything else.
    return *pool;
  }

  // The buffer given last, whose words may still be near, of those that hold `wanted` words and not many more; else the
  // largest, if it holds `least`; else none.
  Buffer take(std::size_t least, std::size_t wanted) noexcept {
    const std::lock_guard lock(mutex_);
    std::size_t best = kNone;
    for (std::size_t i = count_; i-- > 0;) {
      const std::size_t capacity = kept_[i].capacity;
      if (capacity >= wanted && capacity <= 2 * wanted) return take_at(i);
      if (capacity >= least && (best == kNone || capacity > kept_[best].capacity)) best = i;
    }
    return best == kNone ? Buffer() : take_at(best);
  }

  // The one given last of those that hold `least` words and not many more; else a new one.
  Buffer take_fitting(std::size_t least) {
    Buffer made = kept_one(least);
    if (made.words == nullptr) grow(made, least);
    return made;
  }

  // Has a buffer hold more words, or a new one some; if there is no memory it stays as it is.
  void grow(Buffer& buffer, std::size_t capacity) {
    if (buffer.words != nullptr) {
      const Buffer other = kept_one(capacity);
      if (other.words != nullptr) {
        std::memcpy(other.words, buffer.words, buffer.nbytes());
        give(std::exchange(buffer, other));
        return;
      }
    }
    const Buffer larger{nullptr, capacity};
    {
      const std::lock_guard lock(mutex_);
      use(counted(larger) - counted(buffer));
      while (count_ != 0 && used_ + bytes_ > most_used_) free(drop_at(0));  // Of sizes that nobody has wanted.
    }
    Word* const moved = resized(buffer, larger.nbytes());
    if (moved == nullptr) {
      const std::lock_guard lock(mutex_);
      used_ -= counted(larger) - counted(buffer);
      throw std::bad_alloc();
    }
    buffer = {moved, capacity};
  }

  void give(Buffer buffer) noexcept {
    if (counted(buffer) == 0) {
      free(buffer);
      return;
    }
    const std::lock_guard lock(mutex_);
    used_ -= counted(buffer);
    if (buffer.nbytes() <= kLimit) {
      while (count_ == kMost || bytes_ + buffer.nbytes() > kLimit) free(drop_at(0));
      kept_[count_++] = buffer;
      bytes_ += buffer.nbytes();
    } else {
      free(buffer);
    }
    if (used_ == 0) conclude();
  }

  // Gives a buffer back to the system.
  void drop(Buffer buffer) noexcept {
    free(buffer);
    const std::lock_guard lock(mutex_);
    used_ -= counted(buffer);
  }

  void clear() noexcept {
    const std::lock_guard lock(mutex_);
    while (count_ != 0) free(drop_at(count_ - 1));
    most_used_ = lately_ = used_;
  }

 private:
  static constexpr std::size_t kNone = std::numeric_limits<std::size_t>::max();
  static constexpr std::size_t kMost = 1024;
  static constexpr std::size_t kSmallest = 4096;                   // Bytes: smaller ones are quickly had.
  static constexpr std::size_t kSmallestPages = std::size_t{128} << 10;
  static constexpr std::size_t kHugePages = std::size_t{4} << 20;
  static constexpr std::size_t kLimit = std::size_t{1} << 30;

  // Larger buffers have pages of their own: these grow without being copied, and leave no gaps when they are given back.
  static bool has_pages(std::size_t bytes) noexcept { return bytes >= kSmallestPages; }

  static Word* resized(Buffer buffer, std::size_t bytes) noexcept {
    if (!has_pages(bytes)) return static_cast<Word*>(reallocate(buffer.words, bytes));
    const bool grows = has_pages(buffer.nbytes());
    void* const pages = grows ? mremap(buffer.words, buffer.nbytes(), bytes, MREMAP_MAYMOVE)
                              : mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (pages == MAP_FAILED) return nullptr;
    if (bytes >= kHugePages) (void)madvise(pages, bytes, MADV_HUGEPAGE);  // All of it: what is split cannot be moved.
    if (!grows && buffer.words != nullptr) {
      std::memcpy(pages, buffer.words, buffer.nbytes());
      std::free(buffer.words);
    }
    return static_cast<Word*>(pages);
  }

  static void free(Buffer buffer) noexcept {
    if (has_pages(buffer.nbytes())) {
      munmap(buffer.words, buffer.nbytes());
    } else {
      std::free(buffer.words);
    }
  }

  static std::size_t counted(Buffer buffer) noexcept { return buffer.nbytes() < kSmallest ? 0 : buffer.nbytes(); }

  Buffer kept_one(std::size_t least) noexcept {
    const std::lock_guard lock(mutex_);
    for (std::size_t i = count_; i-- > 0;) {
      if (kept_[i].capacity >= least && kept_[i].capacity <= 2 * least) return take_at(i);
    }
    return {};
  }

  Buffer drop_at(std::size_t at) noexcept {
    const Buffer dropped = kept_[at];
    std::move(kept_ + at + 1, kept_ + count_--, kept_ + at);
    bytes_ -= dropped.nbytes();
    return dropped;
  }

  Buffer take_at(std::size_t at) noexcept {
    const Buffer taken = drop_at(at);
    use(counted(taken));
    return taken;
  }

  void use(std::size_t more) noexcept {
    used_ += more;
    lately_ = std::max(lately_, used_);
    most_used_ = std::max(most_used_, used_);
  }

  // Nothing is in use: if less was lately than before, fewer buffers are kept from time to time.
  void conclude() noexcept {
    most_used_ = std::max(lately_, most_used_ - most_used_ / 16);
    lately_ = 0;
    while (count_ != 0 && bytes_ > most_used_) free(drop_at(0));
  }

  std::mutex mutex_;
  Buffer kept_[kMost];  // The one given last is the last one.
  std::size_t count_ = 0;
  std::size_t bytes_ = 0;      // Of those that are kept,
  std::size_t used_ = 0;       // of those that are in use,
  std::size_t most_used_ = 0;  // the most that have been at a time,
  std::size_t lately_ = 0;     // and that since there was a time when none was.
};

}  // namespace everview

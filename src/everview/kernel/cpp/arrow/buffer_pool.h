// Emptied column buffers, kept for the next columns.
#pragma once

#include <mutex>
#include <vector>

#include "../store/array.h"

namespace everview {

// Memory new to the process has to be mapped and zeroed page by page, which takes longer than computing what goes into
// it. So the buffers of columns that nobody reads any more are kept, up to a limit, for all machines of the process.
class BufferPool {
 public:
  struct Buffer {
    Word* words = nullptr;
    std::size_t capacity = 0;
  };

  static BufferPool& shared() {
    static auto* const pool = new BufferPool;  // Never destroyed: columns may outlive everything else.
    return *pool;
  }

  // The buffer given last, whose words may still be near, of those that hold `wanted` words and not many more; else the
  // largest, if it holds `least`; else none.
  Buffer take(std::size_t least, std::size_t wanted) noexcept {
    const std::lock_guard lock(mutex_);
    std::size_t best = kMost;
    for (std::size_t i = count_; i-- > 0;) {
      const std::size_t capacity = kept_[i].capacity;
      if (capacity >= wanted && capacity <= 2 * wanted) return take_at(i);
      if (capacity >= least && (best == kMost || capacity > kept_[best].capacity)) best = i;
    }
    return take_at(best);
  }

  // The one given last of those that hold `least` words and not many more; else none.
  Buffer take_fitting(std::size_t least) noexcept {
    const std::lock_guard lock(mutex_);
    for (std::size_t i = count_; i-- > 0;) {
      if (kept_[i].capacity >= least && kept_[i].capacity <= 2 * least) return take_at(i);
    }
    return {};
  }

  void give(Buffer buffer) noexcept {
    const std::size_t bytes = buffer.capacity * sizeof(Word);
    if (bytes >= kSmallest && bytes <= kLimit) {
      const std::lock_guard lock(mutex_);
      while (count_ == kMost || bytes_ + bytes > kLimit) {  // The smallest goes, to make room for a larger one.
        std::size_t least = 0;
        for (std::size_t i = 1; i < count_; ++i) {
          if (kept_[i].capacity < kept_[least].capacity) least = i;
        }
        if (kept_[least].capacity >= buffer.capacity) break;
        std::free(take_at(least).words);
      }
      if (count_ < kMost && bytes_ + bytes <= kLimit) {
        kept_[count_++] = buffer;
        bytes_ += bytes;
        return;
      }
    }
    std::free(buffer.words);
  }

  void clear() noexcept {
    const std::lock_guard lock(mutex_);
    while (count_ != 0) std::free(take_at(count_ - 1).words);
  }

 private:
  static constexpr std::size_t kMost = 256;
  static constexpr std::size_t kSmallest = 4096;                   // Bytes: smaller ones are quickly had.
  static constexpr std::size_t kLimit = std::size_t{256} << 20;

  Buffer take_at(std::size_t at) noexcept {
    if (at == kMost) return {};
    const Buffer taken = kept_[at];
    std::move(kept_ + at + 1, kept_ + count_--, kept_ + at);
    bytes_ -= taken.capacity * sizeof(Word);
    return taken;
  }

  std::mutex mutex_;
  Buffer kept_[kMost];
  std::size_t count_ = 0;
  std::size_t bytes_ = 0;
};

}  // namespace everview

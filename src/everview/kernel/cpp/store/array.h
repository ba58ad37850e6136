// A growing array of plain data.
#pragma once

#include <sys/mman.h>

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <new>
#include <type_traits>
#include <utility>

#include "words.h"

namespace everview {

// Large blocks ask for huge pages: fewer faults when they are new, fewer misses in the address caches ever after.
inline void* reallocate_huge(void* memory, std::size_t bytes) {
  constexpr std::size_t kHugePage = std::size_t{2} << 20;
  void* const moved = std::realloc(memory, bytes);
  if (moved != nullptr && bytes >= 2 * kHugePage) {
    const std::uintptr_t begin = (reinterpret_cast<std::uintptr_t>(moved) + kHugePage - 1) & ~(kHugePage - 1);
    const std::uintptr_t end = (reinterpret_cast<std::uintptr_t>(moved) + bytes) & ~(kHugePage - 1);
    if (begin < end) (void)madvise(reinterpret_cast<void*>(begin), end - begin, MADV_HUGEPAGE);  // Only advice.
  }
  return moved;
}

// Where all memory that grows with the data comes from; tests put a function here that fails at will.
inline void* (*reallocate)(void*, std::size_t) = reallocate_huge;

// Like std::vector for plain data, but it grows in place where the system can (realloc moves pages, not bytes), by less
// when it is large, and leaves new elements unwritten.
template <class T>
class Array {
  static_assert(std::is_trivially_copyable_v<T>);

 public:
  Array() noexcept = default;
  Array(const Array&) = delete;
  Array(Array&& other) noexcept { swap(other); }
  Array& operator=(Array other) noexcept {
    swap(other);
    return *this;
  }
  ~Array() { std::free(data_); }

  void swap(Array& other) noexcept {
    std::swap(data_, other.data_);
    std::swap(size_, other.size_);
    std::swap(capacity_, other.capacity_);
  }

  T* data() noexcept { return data_; }
  const T* data() const noexcept { return data_; }
  std::size_t size() const noexcept { return size_; }
  std::size_t capacity() const noexcept { return capacity_; }
  std::size_t nbytes() const noexcept { return capacity_ * sizeof(T); }
  bool empty() const noexcept { return size_ == 0; }
  T& operator[](std::size_t at) noexcept { return data_[at]; }
  const T& operator[](std::size_t at) const noexcept { return data_[at]; }
  T* begin() noexcept { return data_; }
  T* end() noexcept { return data_ + size_; }
  const T* begin() const noexcept { return data_; }
  const T* end() const noexcept { return data_ + size_; }

  // Makes room for `extra` more elements; after it, pushing them cannot fail.
  void make_room(std::size_t extra) {
    if (capacity_ - size_ < extra) grow(size_ + extra);
  }

  void push_back(T item) noexcept { data_[size_++] = item; }
  T pop_back() noexcept { return data_[--size_]; }
  void resize(std::size_t size) noexcept { size_ = size; }  // Within the capacity; new elements are not written.

  void release() noexcept { Array().swap(*this); }

  // Gives memory back once three quarters of it lie idle. It costs as much as the removals that led here, and leaves
  // some of the new room free, so that it cannot alternate with growth.
  void give_back() noexcept {
    constexpr std::size_t kKeptBytes = 256;  // Not worth returning, and soon needed again.
    if (nbytes() <= kKeptBytes || size_ > capacity_ / 4) return;
    if (size_ == 0) {
      release();
    } else {
      set_capacity(2 * size_);
    }
  }

 private:
  void grow(std::size_t needed) {
    constexpr std::size_t kLarge = std::size_t{1} << 16;
    const std::size_t more = capacity_ / (nbytes() < kLarge ? 2 : nbytes() < 4 * kLarge ? 16 : 32);
    if (!set_capacity(std::max({needed, capacity_ + more, 32 / sizeof(T)}))) throw std::bad_alloc();
  }

  bool set_capacity(std::size_t capacity) noexcept {
    void* const moved = reallocate(data_, capacity * sizeof(T));
    if (moved == nullptr) return false;
    data_ = static_cast<T*>(moved);
    capacity_ = capacity;
    return true;
  }

  T* data_ = nullptr;
  std::size_t size_ = 0;
  std::size_t capacity_ = 0;
};

}  // namespace everview

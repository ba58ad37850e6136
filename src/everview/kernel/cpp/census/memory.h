// What a census counts: the bytes of its containers, and its steps.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <stdexcept>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

namespace everview::census {

using Word = std::int64_t;
using Vertex = std::uint32_t;  // An element, by its number in the storage, or in a neighbourhood.
using TypeId = std::uint64_t;
inline constexpr TypeId kNoType = ~TypeId{0};
inline constexpr Vertex kNoVertex = ~Vertex{0};

// The bytes that the census in use has taken. Whoever uses one says so by a `Use`, with its lock held.
inline thread_local std::size_t* bytes_in_use = nullptr;

class Use {
 public:
  explicit Use(std::size_t& bytes) noexcept : before_(bytes_in_use) { bytes_in_use = &bytes; }
  Use(const Use&) = delete;
  Use& operator=(const Use&) = delete;
  ~Use() { bytes_in_use = before_; }

 private:
  std::size_t* before_;
};

template <class T>
struct Counted {
  using value_type = T;
  Counted() noexcept = default;
  template <class U>
  Counted(const Counted<U>&) noexcept {}

  T* allocate(std::size_t count) {
    T* const memory = std::allocator<T>().allocate(count);
    if (bytes_in_use != nullptr) *bytes_in_use += count * sizeof(T);
    return memory;
  }
  void deallocate(T* memory, std::size_t count) noexcept {
    if (bytes_in_use != nullptr) *bytes_in_use -= count * sizeof(T);
    std::allocator<T>().deallocate(memory, count);
  }
  friend bool operator==(const Counted&, const Counted&) noexcept { return true; }
};

template <class T>
using Vector = std::vector<T, Counted<T>>;
template <class K, class V, class H = std::hash<K>>
using HashMap = std::unordered_map<K, V, H, std::equal_to<K>, Counted<std::pair<const K, V>>>;
template <class K, class V>
using OrderedMap = std::map<K, V, std::less<K>, Counted<std::pair<const K, V>>>;

// An element that would have too many neighbours.
struct DegreeFault {
  Word element;
  std::size_t degree;
};

// Too many types, or too many steps.
struct LimitFault {
  bool types;
  std::uint64_t limit;
};

class Steps {
 public:
  void take(std::size_t steps = 1) {
    count_ += steps;
    if (count_ > most_) throw LimitFault{false, most_};
  }
  std::uint64_t count() const noexcept { return count_; }
  void allow(std::uint64_t more) noexcept { most_ = more > kAll - count_ ? kAll : count_ + more; }
  void allow_all() noexcept { most_ = kAll; }

 private:
  static constexpr std::uint64_t kAll = ~std::uint64_t{0};
  std::uint64_t count_ = 0;
  std::uint64_t most_ = kAll;
};

inline std::uint64_t mix(std::uint64_t x) noexcept {
  x += 0x9e3779b97f4a7c15u;
  x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9u;
  x = (x ^ (x >> 27)) * 0x94d049bb133111ebu;
  return x ^ (x >> 31);
}
inline std::uint64_t mix(std::uint64_t x, std::uint64_t y) noexcept { return mix(x ^ mix(y)); }

template <class T>
struct VectorHash {
  std::size_t operator()(const Vector<T>& items) const noexcept {
    std::uint64_t hash = items.size();
    for (const T item : items) hash = mix(hash, static_cast<std::uint64_t>(item));
    return hash;
  }
};

}  // namespace everview::census

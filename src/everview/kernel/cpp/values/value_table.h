// Byte strings as numbers: every distinct value has an id, and a count of its uses.
#pragma once

#include <array>
#include <stdexcept>
#include <string>
#include <string_view>

#include "../store/batch_log.h"
#include "../store/slot_table.h"

namespace everview {

using ValueKind = std::uint8_t;  // Equal bytes of different kinds are different values.
inline constexpr ValueKind kNumbers = 2;  // Whole numbers, the lowest byte first, negative ones as two's complement.

// Values as they lie in Arrow: bytes one after the other, with 32- or 64-bit offsets and a bitmap of those that are not
// null.
struct ValueColumn {
  const std::uint8_t* valid = nullptr;  // None: no nulls.
  const std::int32_t* short_offsets = nullptr;
  const std::int64_t* long_offsets = nullptr;  // Either these or the short ones.
  const char* bytes = nullptr;
  std::size_t first = 0;
  std::size_t size = 0;

  bool is_null(std::size_t i) const noexcept {
    return valid != nullptr && (valid[(first + i) / 8] >> ((first + i) % 8) & 1) == 0;
  }
  std::string_view operator[](std::size_t i) const noexcept {
    return short_offsets != nullptr ? cut(short_offsets, first + i) : cut(long_offsets, first + i);
  }

 private:
  template <class Offset>
  std::string_view cut(const Offset* offsets, std::size_t i) const noexcept {
    return {bytes + offsets[i], static_cast<std::size_t>(offsets[i + 1] - offsets[i])};
  }
};

// The same, made here. One offset more than values; no bitmap if there are no nulls.
template <class Offset>
struct ValueArray {
  Array<std::uint8_t> valid;
  Array<Offset> offsets;
  Array<char> bytes;
  std::size_t size = 0;
  std::size_t nulls = 0;
};

// A value keeps its id until `collect` finds it unused; the id is then given to another value. Ids that are idle or
// free form lists through the values and entries themselves, so nothing but new values and results takes memory; where
// there is none, a call changes nothing.
class ValueTable {
 public:
  static constexpr Word kNull = std::numeric_limits<Word>::min();
  static constexpr Word kUnknown = -1;

  ValueTable() = default;
  ValueTable(const ValueTable&) = delete;
  ValueTable& operator=(const ValueTable&) = delete;
  ~ValueTable() {
    for (const Entry& entry : entries_) {
      if (!entry.is_free()) std::free(entry.value());
    }
  }

  std::size_t size() const noexcept { return entries_.size() - free_count_; }
  std::size_t nbytes() const noexcept {
    return sizeof *this + entries_.nbytes() + slots_.nbytes() + value_bytes_ + touched_.nbytes() + marks_.nbytes();
  }

  // From now on what the uses of values were is kept, once for each value that is counted.
  void begin() {
    if (in_batch_) throw std::invalid_argument("a batch is running already");
    in_batch_ = true;
  }
  void commit() noexcept {
    touched_.release();
    marks_.clear(entries_.size());
    in_batch_ = false;
  }
  // Has all uses as they were at `begin`; nothing may have been collected since.
  void roll_back() noexcept {
    for (const Touched& touched : touched_) {
      (*this)[touched.id].uses = touched.uses;
      list_if_unused(touched.id);
    }
    commit();
  }

  // The values' ids, kNull for nulls; values that are new get one, with no uses.
  void encode(ValueKind kind, const ValueColumn& values, Word* ids) {
    const Id idle = idle_;
    const std::size_t entries = entries_.size();
    try {
      translate(kind, values, ids, [&](Tag tag, Shape shape, const char* bytes) { return add(tag, shape, bytes); });
    } catch (...) {
      while (idle_ != idle) {  // What is new came last, and goes first.
        const Id id = idle_;
        idle_ = (*this)[id].next;
        forget(id);
        if (id >= entries) drop_last();
      }
      if (size() == 0) compact();  // Nothing would ever be collected that gives the memory back.
      throw;
    }
  }

  // The bytes of a value that is stored, as long as it is.
  std::string_view bytes_of(Word id) const {
    const Value& value = checked(id);
    return {value.bytes(), value.size()};
  }

  // The same for values that are stored, and kUnknown for others.
  void lookup(ValueKind kind, const ValueColumn& values, Word* ids) const noexcept {
    translate(kind, values, ids, [](Tag, Shape, const char*) { return kUnknown; });
  }

  // The values of ids, null for kNull. Throws std::out_of_range if an id has no value of this kind, std::length_error
  // if their bytes are too many for the offsets.
  template <class Offset>
  ValueArray<Offset> decode(ValueKind kind, const Word* ids, std::size_t count) const {
    std::size_t total = 0, nulls = 0;
    for (std::size_t i = 0; i < count; ++i) {
      if (ids[i] == kNull) {
        ++nulls;
        continue;
      }
      const Value& value = checked(ids[i]);
      if (value.kind() != kind) throw std::out_of_range("id " + std::to_string(ids[i]) + " is of another kind");
      total += value.size();
    }
    if (total > static_cast<std::size_t>(std::numeric_limits<Offset>::max())) {
      throw std::length_error("the values take " + std::to_string(total) + " bytes, too many for one array");
    }
    ValueArray<Offset> made;
    made.offsets.make_room(count + 1);
    made.bytes.make_room(std::max<std::size_t>(total, 1));
    if (nulls != 0) made.valid = all_valid(count);
    char* out = made.bytes.data();
    for (std::size_t i = 0; i < count; ++i) {
      made.offsets.push_back(static_cast<Offset>(out - made.bytes.data()));
      if (ids[i] == kNull) {
        made.valid[i / 8] = static_cast<std::uint8_t>(made.valid[i / 8] & ~(1u << (i % 8)));
        continue;
      }
      const Value& value = (*this)[static_cast<Id>(ids[i])];
      std::memcpy(out, value.bytes(), value.size());
      out += value.size();
    }
    made.offsets.push_back(static_cast<Offset>(total));
    made.bytes.resize(total);
    made.size = count;
    made.nulls = nulls;
    return made;
  }

  // How many bytes the values of ids take, which are stored or kNull.
  std::size_t nbytes_of(const Word* ids, std::size_t count) const noexcept {
    std::size_t total = 0;
    for (std::size_t i = 0; i < count; ++i) {
      if (ids[i] != kNull) total += (*this)[static_cast<Id>(ids[i])].size();
    }
    return total;
  }

  // Counts further uses: one for each id, or as many as `counts` says. kNull is skipped here and in `release`. Throws
  // std::overflow_error, and changes nothing, if a value would have more uses than a word can count.
  void retain(const Word* ids, const Word* counts, std::size_t count) {
    check(ids, count);
    keep_uses(ids, count);
    const std::size_t done = count_uses<true>(ids, counts, count);
    if (done == count) return;
    uncount_uses<true>(ids, counts, done);
    throw std::overflow_error(kTooOften);
  }

  // Takes uses back. Throws std::invalid_argument, and changes nothing, if an id has fewer than the call takes in all.
  void release(const Word* ids, const Word* counts, std::size_t count) {
    check(ids, count);
    keep_uses(ids, count);
    conclude<false>(ids, counts, count, count_uses<false>(ids, counts, count));
  }

  // Counts further uses where `counts` is above 0, and takes uses back where it is below; throws as those two do.
  void count(const Word* ids, const Word* counts, std::size_t count) {
    check(ids, count);
    keep_uses(ids, count);
    const std::size_t done = count_uses<true>(ids, counts, count);
    if (done != count && counts[done] > 0) {
      uncount_uses<true>(ids, counts, done);
      throw std::overflow_error(kTooOften);
    }
    conclude<true>(ids, counts, count, done);
  }

  // Frees the values without uses, and tells how many; takes time for those that became unused, not for all. In a batch
  // it frees none: what is unused now may be used again once the batch is taken back.
  std::size_t collect() noexcept {
    std::size_t freed = 0;
    if (in_batch_) return freed;
    while (idle_ != kEnd) {
      const Id id = idle_;
      Value& value = (*this)[id];
      idle_ = std::exchange(value.next, kNotListed);
      if (value.uses != 0) continue;
      forget(id);
      ++freed;
    }
    freed_ += freed;
    if (freed != 0 && (size() == 0 || 2 * freed_ > entries_.size())) compact();
    return freed;
  }

  // The uses of ids 0, 1, …; none where an id is free.
  std::size_t ids_end() const noexcept { return entries_.size(); }
  Word uses(std::size_t id) const noexcept {
    return entries_[id].is_free() ? 0 : (*this)[static_cast<Id>(id)].uses;
  }
  void set_uses(const Word* uses, std::size_t count) noexcept {
    for (std::size_t i = 0; i < entries_.size(); ++i) {
      if (entries_[i].is_free()) continue;
      entries_[i].value()->uses = i < count ? uses[i] : 0;
      list_if_unused(static_cast<Id>(i));
    }
  }

  bool has(Word id, ValueKind kind) const noexcept {
    return is_stored(id) && (*this)[static_cast<Id>(id)].kind() == kind;
  }

  // Whether the value of `a` comes before that of `b`, which is another word: by their bytes, a beginning before what
  // goes on, and equal bytes of different kinds by their ids; numbers, after all others, by their size. Words without a
  // value, kNull first, come before those with one.
  bool precedes(Word a, Word b) const noexcept {
    if (!is_stored(a) || !is_stored(b)) return is_stored(a) == is_stored(b) ? a < b : is_stored(b);
    const Value& one = (*this)[static_cast<Id>(a)];
    const Value& other = (*this)[static_cast<Id>(b)];
    const bool is_number = one.kind() == kNumbers;
    if (is_number != (other.kind() == kNumbers)) return !is_number;
    if (is_number && one.size() == other.size()) return is_less(one, other);
    const std::size_t common = std::min(one.size(), other.size());
    const int order = common == 0 ? 0 : std::memcmp(one.bytes(), other.bytes(), common);
    if (order != 0 && !is_number) return order < 0;
    return one.size() != other.size() ? one.size() < other.size() : a < b;
  }

  // Takes over what another table holds, and gives it what this one held.
  void swap(ValueTable& other) noexcept {
    entries_.swap(other.entries_);
    std::swap(slots_, other.slots_);
    std::swap(value_bytes_, other.value_bytes_);
    std::swap(free_count_, other.free_count_);
    std::swap(freed_, other.freed_);
    std::swap(free_, other.free_);
    std::swap(idle_, other.idle_);
  }

  // Adds values with the ids and uses that they had when they were saved, some at a time; `finish_loading` is to follow.
  // Throws std::invalid_argument if that cannot be: an id or a value is there already, or a number is out of range. What
  // came before it then stays.
  void load(ValueKind kind, const ValueColumn& values, const Word* ids, const Word* uses) {
    Word most = -1;
    for (std::size_t i = 0; i < values.size; ++i) {
      if (ids[i] < 0 || ids[i] >= static_cast<Word>(kMaxRows)) throw std::invalid_argument("its ids are wrong");
      most = std::max(most, ids[i]);
    }
    const auto needed = static_cast<std::size_t>(most + 1);
    if (needed > entries_.size()) {
      const std::size_t size = entries_.size();
      entries_.make_room(needed - size);
      entries_.resize(needed);
      std::fill(entries_.begin() + size, entries_.end(), Entry(kEnd));
    }
    for (std::size_t i = 0; i < values.size; ++i) load_one(kind, values, i, static_cast<Id>(ids[i]), uses[i]);
  }
  // From now on the ids between those that were loaded are given out.
  void finish_loading() noexcept { link_free(); }

 private:
  using Id = std::uint32_t;
  using Shape = std::uint64_t;  // A value's length, and its kind in the lowest byte.

  static constexpr Id kEnd = std::numeric_limits<Id>::max();  // Of a list.
  static constexpr Id kNotListed = kEnd - 1;
  static constexpr const char* kTooOften = "a value occurs more often than 64 bits can count";
  static constexpr std::size_t kTogether = 32;  // Values whose slots are fetched from memory together.

  // A block of its own, with the bytes at its end, so that what is freed can be used for anything.
  struct Value {
    Word uses;
    Shape shape;
    Tag tag;
    Id next;  // Of the idle ids.

    std::size_t size() const noexcept { return shape >> 8; }
    ValueKind kind() const noexcept { return static_cast<ValueKind>(shape); }
    char* bytes() noexcept { return reinterpret_cast<char*>(this + 1); }
    const char* bytes() const noexcept { return reinterpret_cast<const char*>(this + 1); }
    bool is(Shape other, const char* data) const noexcept {
      return shape == other && (size() == 0 || std::memcmp(bytes(), data, size()) == 0);
    }
    std::size_t nbytes() const noexcept {  // With what malloc adds.
      return (sizeof *this + size() + sizeof(std::size_t) + 15) & ~std::size_t{15};
    }
  };

  // What an id stands for: a value, or if it is free the next free id.
  class Entry {
   public:
    explicit Entry(Value* value) noexcept : bits_(reinterpret_cast<std::uintptr_t>(value)) {}
    explicit Entry(Id next) noexcept : bits_(std::uintptr_t{next} << 1 | 1) {}
    bool is_free() const noexcept { return (bits_ & 1) != 0; }
    Value* value() const noexcept { return reinterpret_cast<Value*>(bits_); }
    Id next() const noexcept { return static_cast<Id>(bits_ >> 1); }

   private:
    std::uintptr_t bits_;
  };

  Value& operator[](Id id) noexcept { return *entries_[id].value(); }
  const Value& operator[](Id id) const noexcept { return *entries_[id].value(); }

  static Tag tag_of(Shape shape, const char* bytes) noexcept {
    Hasher hasher;
    hasher.add(static_cast<Word>(shape));
    Word word = 0;
    std::size_t left = shape >> 8;
    for (; left >= sizeof word; left -= sizeof word, bytes += sizeof word) {
      std::memcpy(&word, bytes, sizeof word);
      hasher.add(word);
    }
    if (left != 0) {
      word = 0;
      std::memcpy(&word, bytes, left);
      hasher.add(word);
    }
    return hasher.tag();
  }

  static Shape shape_of(ValueKind kind, std::string_view bytes) noexcept { return Shape{bytes.size()} << 8 | kind; }

  std::size_t find(Tag tag, Shape shape, const char* bytes) const noexcept {
    return slots_.find(tag, [&](Id id) { return (*this)[id].is(shape, bytes); });
  }

  template <class Unknown>
  void translate(ValueKind kind, const ValueColumn& values, Word* ids, Unknown&& unknown) const {
    std::array<Tag, kTogether> tags;
    for (std::size_t first = 0; first < values.size; first += kTogether) {
      const std::size_t end = std::min(values.size, first + kTogether);
      for (std::size_t i = first; i < end; ++i) {
        if (values.is_null(i)) continue;
        tags[i - first] = tag_of(shape_of(kind, values[i]), values[i].data());
        slots_.prefetch(tags[i - first]);
      }
      for (std::size_t i = first; i < end; ++i) {
        if (values.is_null(i)) {
          ids[i] = kNull;
          continue;
        }
        const Shape shape = shape_of(kind, values[i]);
        const std::size_t at = find(tags[i - first], shape, values[i].data());
        ids[i] = at != SlotTable::kNone ? Word{slots_[at]} : unknown(tags[i - first], shape, values[i].data());
      }
    }
  }

  Word add(Tag tag, Shape shape, const char* bytes) {
    slots_.reserve_one();
    if (free_ == kEnd) {
      if (entries_.size() == kMaxRows) throw std::length_error("a dictionary has at most 2**31 values");
      entries_.make_room(1);
    }
    Value* const value = make(tag, shape, bytes);
    Id id = free_;
    if (id != kEnd) {
      free_ = entries_[id].next();
      --free_count_;
      entries_[id] = Entry(value);
    } else {
      id = static_cast<Id>(entries_.size());
      entries_.push_back(Entry(value));
    }
    slots_.insert(tag, id);
    list_if_unused(id);
    return Word{id};
  }

  Value* make(Tag tag, Shape shape, const char* bytes) {
    const std::size_t size = shape >> 8;
    void* const memory = reallocate(nullptr, sizeof(Value) + size);
    if (memory == nullptr) throw std::bad_alloc();
    auto* const value = new (memory) Value{0, shape, tag, kNotListed};
    if (size != 0) std::memcpy(value->bytes(), bytes, size);
    value_bytes_ += value->nbytes();
    return value;
  }

  // Frees a value that is in no list; its id is the next to be given out.
  void forget(Id id) noexcept {
    Value* const value = entries_[id].value();
    slots_.erase(slots_.find(value->tag, [id](Id other) { return other == id; }));
    value_bytes_ -= value->nbytes();
    std::free(value);
    entries_[id] = Entry(free_);
    free_ = id;
    ++free_count_;
  }

  // Takes back the last id, which has just been freed.
  void drop_last() noexcept {
    free_ = entries_[entries_.size() - 1].next();
    --free_count_;
    entries_.resize(entries_.size() - 1);
  }

  // Gives memory back: cuts the free ids at the end, and shrinks what has become too large.
  void compact() noexcept {
    std::size_t end = entries_.size();
    while (end != 0 && entries_[end - 1].is_free()) --end;
    entries_.resize(end);
    link_free();
    freed_ = 0;
    if (end == 0) {
      entries_.release();
      slots_.release();
    } else {
      entries_.give_back();
      slots_.give_back();
    }
  }

  // The lowest is given out first.
  void link_free() noexcept {
    free_ = kEnd;
    free_count_ = 0;
    for (std::size_t i = entries_.size(); i-- != 0;) {
      if (!entries_[i].is_free()) continue;
      entries_[i] = Entry(free_);
      free_ = static_cast<Id>(i);
      ++free_count_;
    }
  }

  // Of numbers with as many bytes.
  static bool is_less(const Value& one, const Value& other) noexcept {
    std::uint8_t sign = 0x80;  // Turned, negative numbers are below the others.
    for (std::size_t i = one.size(); i-- != 0; sign = 0) {
      const auto a = static_cast<std::uint8_t>(static_cast<std::uint8_t>(one.bytes()[i]) ^ sign);
      const auto b = static_cast<std::uint8_t>(static_cast<std::uint8_t>(other.bytes()[i]) ^ sign);
      if (a != b) return a < b;
    }
    return false;
  }

  void list_if_unused(Id id) noexcept {
    Value& value = (*this)[id];
    if (value.uses != 0 || value.next != kNotListed) return;
    value.next = idle_;
    idle_ = id;
  }

  bool is_stored(Word id) const noexcept {
    const auto at = static_cast<std::size_t>(id);
    return id >= 0 && at < entries_.size() && !entries_[at].is_free();
  }

  const Value& checked(Word id) const {
    if (!is_stored(id)) throw std::out_of_range("no value has id " + std::to_string(id));
    return (*this)[static_cast<Id>(id)];
  }

  void check(const Word* ids, std::size_t count) const {
    for (std::size_t i = 0; i < count; ++i) {
      if (ids[i] != kNull) checked(ids[i]);
    }
  }

  struct Touched {
    Word uses;
    Id id;
  };

  // In a batch: what the uses of these were, where that is not known.
  void keep_uses(const Word* ids, std::size_t count) {
    if (!in_batch_) return;
    for (std::size_t i = 0; i < count; ++i) {
      if (ids[i] == kNull || marks_.has(static_cast<Row>(ids[i]))) continue;
      touched_.make_room(1);
      marks_.make_room(entries_.size());
      const Id id = static_cast<Id>(ids[i]);
      touched_.push_back({(*this)[id].uses, id});
      marks_.set(id);
    }
  }

  // Adds the counts to the uses, or subtracts them. Stops where that leaves 64 bits, and tells how far it came.
  template <bool kMore>
  std::size_t count_uses(const Word* ids, const Word* counts, std::size_t count) noexcept {
    for (std::size_t i = 0; i < count; ++i) {
      if (ids[i] == kNull) continue;
      Word& uses = (*this)[static_cast<Id>(ids[i])].uses;
      const Word by = counts == nullptr ? 1 : counts[i];
      Word now = 0;
      if (kMore ? __builtin_add_overflow(uses, by, &now) : __builtin_sub_overflow(uses, by, &now)) return i;
      uses = now;
    }
    return count;
  }

  // Takes that back, the last first: every count passes through what it was, and none leaves 64 bits.
  template <bool kMore>
  void uncount_uses(const Word* ids, const Word* counts, std::size_t count) noexcept {
    for (std::size_t i = count; i-- != 0;) {
      if (ids[i] == kNull) continue;
      Word& uses = (*this)[static_cast<Id>(ids[i])].uses;
      const Word by = counts == nullptr ? 1 : counts[i];
      uses = kMore ? uses - by : uses + by;
    }
  }

  // Takes the first `done` counts back, and throws, if an id has fewer than no uses, or the next count would leave 64
  // bits; else, values without uses are listed.
  template <bool kMore>
  void conclude(const Word* ids, const Word* counts, std::size_t count, std::size_t done) {
    Word lacking = done == count ? kNull : ids[done];
    for (std::size_t i = 0; i < done && lacking == kNull; ++i) {
      if (ids[i] != kNull && (*this)[static_cast<Id>(ids[i])].uses < 0) lacking = ids[i];
    }
    if (lacking != kNull) {
      uncount_uses<kMore>(ids, counts, done);
      refuse<kMore>(ids, counts, count, lacking);
    }
    for (std::size_t i = 0; i < count; ++i) {
      if (ids[i] != kNull) list_if_unused(static_cast<Id>(ids[i]));
    }
  }

  template <bool kMore>
  [[noreturn]] void refuse(const Word* ids, const Word* counts, std::size_t count, Word id) const {
    Word total = 0;
    for (std::size_t i = 0; i < count; ++i) {
      if (ids[i] != id) continue;
      const Word by = counts == nullptr ? 1 : counts[i];
      const bool beyond =
          kMore ? __builtin_sub_overflow(total, by, &total) : __builtin_add_overflow(total, by, &total);
      if (beyond) total = std::numeric_limits<Word>::max();
    }
    throw std::invalid_argument(std::to_string(total) + " uses of id " + std::to_string(id) +
                                " are released, and it has " + std::to_string(checked(id).uses));
  }

  void load_one(ValueKind kind, const ValueColumn& values, std::size_t i, Id id, Word uses) {
    if (values.is_null(i)) throw std::invalid_argument("one of its values is null");
    if (uses < 0) throw std::invalid_argument("it counts fewer than no uses");
    const Shape shape = shape_of(kind, values[i]);
    const Tag tag = tag_of(shape, values[i].data());
    if (!entries_[id].is_free()) throw std::invalid_argument("two of its ids are the same");
    if (find(tag, shape, values[i].data()) != SlotTable::kNone) {
      throw std::invalid_argument("two of its values are the same");
    }
    slots_.reserve_one();
    Value* const value = make(tag, shape, values[i].data());
    value->uses = uses;
    entries_[id] = Entry(value);
    slots_.insert(tag, id);
    list_if_unused(id);
  }

  static Array<std::uint8_t> all_valid(std::size_t count) {
    Array<std::uint8_t> made;
    made.make_room((count + 7) / 8);
    made.resize((count + 7) / 8);
    std::fill(made.begin(), made.end(), std::uint8_t{0xff});
    return made;
  }

  Array<Entry> entries_;  // By id.
  SlotTable slots_;       // From tags to ids.
  std::size_t value_bytes_ = 0;
  std::size_t free_count_ = 0;
  std::size_t freed_ = 0;  // Ids freed since the last `compact`.
  Id free_ = kEnd;
  Id idle_ = kEnd;  // The first of the ids that may be unused.
  bool in_batch_ = false;
  Array<Touched> touched_;  // The values whose uses the batch has counted, and what they were.
  RowMarks marks_;          // These values.
};

}  // namespace everview

// Arrays, structs and maps as bytes: one for each value, equal bytes for equal values, in the order of the values.
//
// Numbers are written with the highest byte first and their sign turned, so that bytes compare as they do; all integers,
// days and microseconds take eight bytes, so that they are one value whatever their width. A double is one of eight bytes
// with one zero and one NaN, behind all numbers. Texts end in two zero bytes, and a zero byte in them is followed by 255.
// Each element of an array and each field of a struct has a mark before it, 1 for NULL and 2 for a value; arrays and maps
// end in 0. A map's entries stand in the order of their keys.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>
#include <stdexcept>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "../arrow/arrow.h"

namespace everview::nested {

inline constexpr std::size_t kMostDeep = 64;
inline constexpr std::size_t kDecimalBytes = 16;
inline constexpr char kEnd = 0, kNull = 1, kValue = 2;

// A type: b boolean; i, h, w, l integers of 1 to 8 bytes; f, d floating point; D a decimal of 16 bytes; s text or binary;
// n nothing but NULL; [T an array, (TU…) a struct, {KV a map.
struct Shape {
  char code = 'n';
  std::vector<Shape> children;
};

class ShapeReader {
 public:
  explicit ShapeReader(std::string_view text) : text_(text) {}
  Shape read() {
    Shape made = next(0);
    if (at_ != text_.size()) throw std::invalid_argument("a type of values goes on behind its end");
    return made;
  }

 private:
  Shape next(std::size_t depth) {
    if (depth > kMostDeep) throw std::invalid_argument("a type of values is nested too deeply");
    Shape made;
    made.code = take();
    switch (made.code) {
      case '[':
        made.children.push_back(next(depth + 1));
        break;
      case '{':
        made.children.push_back(next(depth + 1));
        made.children.push_back(next(depth + 1));
        break;
      case '(':
        while (at_ < text_.size() && text_[at_] != ')') made.children.push_back(next(depth + 1));
        take();
        break;
      default:
        if (std::string_view("bihwlfdDsn").find(made.code) == std::string_view::npos) {
          throw std::invalid_argument("there is no type of values of that letter");
        }
    }
    return made;
  }
  char take() {
    if (at_ == text_.size()) throw std::invalid_argument("a type of values ends too early");
    return text_[at_++];
  }

  std::string_view text_;
  std::size_t at_ = 0;
};

// The bytes of an unsigned number, the highest first.
inline void write_number(std::uint64_t number, std::string& out) {
  char bytes[8];
  for (int i = 7; i >= 0; --i, number >>= 8) bytes[i] = static_cast<char>(number & 0xff);
  out.append(bytes, sizeof bytes);
}

inline std::uint64_t turned(std::int64_t number) noexcept {
  return static_cast<std::uint64_t>(number) ^ (std::uint64_t{1} << 63);
}

inline std::uint64_t ordered(double number) noexcept {
  if (std::isnan(number)) number = std::numeric_limits<double>::quiet_NaN();
  if (number == 0) number = 0;  // There is one zero.
  std::uint64_t bits = 0;
  std::memcpy(&bits, &number, sizeof bits);
  return bits >> 63 != 0 ? ~bits : bits | std::uint64_t{1} << 63;
}

inline double from_ordered(std::uint64_t bits) noexcept {
  bits = bits >> 63 != 0 ? bits & ~(std::uint64_t{1} << 63) : ~bits;
  double number = 0;
  std::memcpy(&number, &bits, sizeof number);
  return number;
}

// Values of an Arrow array, one after the other as bytes.
class Encoder {
 public:
  Encoder(const Shape& shape, const arrow::Schema& schema, const arrow::Array& array)
      : code_(shape.code), array_(array), valid_(array.n_buffers == 0 || array.null_count == 0
                                                    ? nullptr
                                                    : static_cast<const std::uint8_t*>(array.buffers[0])) {
    check(schema.format);
    if (static_cast<std::size_t>(schema.n_children) != (code_ == '{' ? 1 : shape.children.size()) ||
        array.n_children != schema.n_children) {
      throw std::invalid_argument("values have other parts than their type");
    }
    if (code_ == '{') {  // Entries are a struct, of which nothing is NULL.
      const arrow::Schema& entries = *schema.children[0];
      if (std::string(entries.format) != "+s" || entries.n_children != 2 || array.children[0]->n_children != 2) {
        throw std::invalid_argument("a map has other parts than its type");
      }
      entries_first_ = array.children[0]->offset;
      for (int i = 0; i < 2; ++i) {
        children_.emplace_back(shape.children[i], *entries.children[i], *array.children[0]->children[i]);
      }
      return;
    }
    for (std::size_t i = 0; i < shape.children.size(); ++i) {
      children_.emplace_back(shape.children[i], *schema.children[i], *array.children[i]);
    }
  }

  bool is_null(std::int64_t row) const noexcept {
    if (code_ == 'n') return true;
    const std::int64_t i = array_.offset + row;
    return valid_ != nullptr && (valid_[i / 8] >> (i % 8) & 1) == 0;
  }

  void write(std::int64_t row, std::string& out) const {
    const std::int64_t i = array_.offset + row;
    switch (code_) {
      case 'b':
        out.push_back(static_cast<char>(data<std::uint8_t>()[i / 8] >> (i % 8) & 1));
        break;
      case 'i':
        write_number(turned(data<std::int8_t>()[i]), out);
        break;
      case 'h':
        write_number(turned(data<std::int16_t>()[i]), out);
        break;
      case 'w':
        write_number(turned(data<std::int32_t>()[i]), out);
        break;
      case 'l':
        write_number(turned(data<std::int64_t>()[i]), out);
        break;
      case 'f':
        write_number(ordered(data<float>()[i]), out);
        break;
      case 'd':
        write_number(ordered(data<double>()[i]), out);
        break;
      case 'D':
        write_decimal(data<char>() + static_cast<std::size_t>(i) * kDecimalBytes, out);
        break;
      case 's':
        write_text(i, out);
        break;
      case '[':
        for (std::int32_t j = data<std::int32_t>()[i]; j < data<std::int32_t>()[i + 1]; ++j) children_[0].mark(j, out);
        out.push_back(kEnd);
        break;
      case '(':
        for (const Encoder& child : children_) child.mark(i, out);
        break;
      case '{':
        write_map(i, out);
        break;
      default:
        break;
    }
  }

 private:
  template <class T>
  const T* data() const noexcept {
    return static_cast<const T*>(array_.buffers[1]);
  }

  void mark(std::int64_t row, std::string& out) const {
    if (is_null(row)) {
      out.push_back(kNull);
      return;
    }
    out.push_back(kValue);
    write(row, out);
  }

  static void write_decimal(const char* bytes, std::string& out) {
    for (std::size_t b = kDecimalBytes; b-- > 0;) {
      out.push_back(b == kDecimalBytes - 1 ? static_cast<char>(bytes[b] ^ '\x80') : bytes[b]);
    }
  }

  void write_text(std::int64_t i, std::string& out) const {
    const std::int32_t first = data<std::int32_t>()[i], last = data<std::int32_t>()[i + 1];
    const char* const bytes = static_cast<const char*>(array_.buffers[2]);
    for (std::int32_t at = first; at < last; ++at) {
      out.push_back(bytes[at]);
      if (bytes[at] == '\0') out.push_back('\xff');
    }
    out.append(2, '\0');
  }

  void write_map(std::int64_t i, std::string& out) const {
    std::vector<std::pair<std::string, std::int64_t>> entries;
    for (std::int64_t j = data<std::int32_t>()[i]; j < data<std::int32_t>()[i + 1]; ++j) {
      const std::int64_t entry = entries_first_ + j;
      if (children_[0].is_null(entry)) throw std::invalid_argument("a key of a map is NULL");
      entries.emplace_back(std::string(), entry);
      children_[0].write(entry, entries.back().first);
    }
    std::sort(entries.begin(), entries.end());
    for (std::size_t k = 0; k < entries.size(); ++k) {
      if (k != 0 && entries[k].first == entries[k - 1].first) throw std::invalid_argument("a map has a key twice");
      out.push_back(kValue);
      out += entries[k].first;
      children_[1].mark(entries[k].second, out);
    }
    out.push_back(kEnd);
  }

  void check(const std::string& format) const {
    const auto begins = [&](const char* with) { return format.rfind(with, 0) == 0; };
    const bool fits = code_ == 'b'   ? format == "b"
                      : code_ == 'i' ? format == "c"
                      : code_ == 'h' ? format == "s"
                      : code_ == 'w' ? format == "i" || format == "tdD"
                      : code_ == 'l' ? format == "l" || begins("tsu:")
                      : code_ == 'f' ? format == "f"
                      : code_ == 'd' ? format == "g"
                      : code_ == 'D' ? begins("d:") && std::count(format.begin(), format.end(), ',') == 1
                      : code_ == 's' ? format == "u" || format == "z"
                      : code_ == 'n' ? format == "n"
                      : code_ == '[' ? format == "+l"
                      : code_ == '(' ? format == "+s"
                                     : format == "+m";
    if (!fits) throw std::invalid_argument("values of the format " + format + " are of another type");
  }

  char code_;
  const arrow::Array& array_;
  const std::uint8_t* valid_;
  std::int64_t entries_first_ = 0;
  std::vector<Encoder> children_;
};

// An Arrow array in the making: its buffers, and those of its parts.
class Decoder {
 public:
  explicit Decoder(const Shape& shape) : code_(shape.code) {
    for (const Shape& child : shape.children) children_.emplace_back(child);
    if (has_offsets()) append<std::int32_t>(offsets_, 0);
  }

  void add_null() {
    mark(false);
    if (code_ == '(') {
      for (Decoder& child : children_) child.add_null();
    } else if (has_offsets()) {
      end();
    } else if (code_ == 'b') {
      add_bit(false);
    } else {
      data_.append(width(), '\0');
    }
  }

  // Takes a value from the front of `from`; std::invalid_argument if there is none of this type.
  void read(std::string_view& from) {
    mark(true);
    switch (code_) {
      case 'b':
        add_bit(take(from, 1)[0] != 0);
        break;
      case 'i':
        add_integer<std::int8_t>(from);
        break;
      case 'h':
        add_integer<std::int16_t>(from);
        break;
      case 'w':
        add_integer<std::int32_t>(from);
        break;
      case 'l':
        add_integer<std::int64_t>(from);
        break;
      case 'f':
        append(data_, static_cast<float>(from_ordered(number(from))));
        break;
      case 'd':
        append(data_, from_ordered(number(from)));
        break;
      case 'D':
        read_decimal(from);
        break;
      case 's':
        read_text(from);
        break;
      case '[':
        while (const char found = next_mark(from)) read_marked(children_[0], found, from);
        end();
        break;
      case '(':
        for (Decoder& child : children_) {
          const char found = next_mark(from);
          if (found == kEnd) throw damaged();
          read_marked(child, found, from);
        }
        break;
      case '{':
        while (const char found = next_mark(from)) {
          if (found != kValue) throw damaged();
          children_[0].read(from);
          const char value = next_mark(from);
          if (value == kEnd) throw damaged();
          read_marked(children_[1], value, from);
        }
        end();
        break;
      default:
        throw damaged();
    }
  }

  char code() const noexcept { return code_; }
  std::size_t size() const noexcept { return size_; }
  std::size_t nulls() const noexcept { return nulls_; }
  const std::string& valid() const noexcept { return valid_; }
  const std::string& offsets() const noexcept { return offsets_; }
  const std::string& data() const noexcept { return data_; }
  bool has_offsets() const noexcept { return code_ == 's' || code_ == '[' || code_ == '{'; }
  const std::vector<Decoder>& children() const noexcept { return children_; }

  static std::invalid_argument damaged() { return std::invalid_argument("a stored value is damaged"); }

 private:
  template <class T>
  static void append(std::string& to, T value) {
    to.append(reinterpret_cast<const char*>(&value), sizeof value);
  }

  static std::string_view take(std::string_view& from, std::size_t count) {
    if (from.size() < count) throw damaged();
    const std::string_view taken = from.substr(0, count);
    from.remove_prefix(count);
    return taken;
  }

  static char next_mark(std::string_view& from) {
    const char found = take(from, 1)[0];
    if (found < kEnd || found > kValue) throw damaged();
    return found;
  }

  static void read_marked(Decoder& child, char mark, std::string_view& from) {
    if (mark == kNull) {
      child.add_null();
    } else {
      child.read(from);
    }
  }

  static std::uint64_t number(std::string_view& from) {
    std::uint64_t found = 0;
    for (const char byte : take(from, 8)) found = found << 8 | static_cast<std::uint8_t>(byte);
    return found;
  }

  template <class T>
  void add_integer(std::string_view& from) {
    const auto found = static_cast<std::int64_t>(number(from) ^ (std::uint64_t{1} << 63));
    if (found < std::numeric_limits<T>::min() || found > std::numeric_limits<T>::max()) throw damaged();
    append(data_, static_cast<T>(found));
  }

  void read_decimal(std::string_view& from) {
    const std::string_view bytes = take(from, kDecimalBytes);
    for (std::size_t b = kDecimalBytes; b-- > 0;) {
      data_.push_back(b == 0 ? static_cast<char>(bytes[b] ^ '\x80') : bytes[b]);
    }
  }

  void read_text(std::string_view& from) {
    while (true) {
      const char byte = take(from, 1)[0];
      if (byte == '\0') {
        const char after = take(from, 1)[0];
        if (after == '\0') break;
        if (after != '\xff') throw damaged();
      }
      data_.push_back(byte);
    }
    end();
  }

  std::size_t width() const noexcept {
    switch (code_) {
      case 'i':
        return 1;
      case 'h':
        return 2;
      case 'w':
      case 'f':
        return 4;
      case 'D':
        return kDecimalBytes;
      default:
        return code_ == 'n' ? 0 : 8;
    }
  }

  void mark(bool there) {
    if (size_ % 8 == 0) valid_.push_back('\0');
    if (there) {
      valid_.back() = static_cast<char>(valid_.back() | 1 << (size_ % 8));
    } else {
      ++nulls_;
    }
    ++size_;
  }

  void add_bit(bool value) {
    if ((size_ - 1) % 8 == 0) data_.push_back('\0');
    if (value) data_.back() = static_cast<char>(data_.back() | 1 << ((size_ - 1) % 8));
  }

  // The end of a text, an array or a map.
  void end() {
    const std::size_t at = code_ == 's' ? data_.size() : children_[0].size();
    if (at > static_cast<std::size_t>(std::numeric_limits<std::int32_t>::max())) {
      throw std::length_error("the values have too many elements for one array");
    }
    append(offsets_, static_cast<std::int32_t>(at));
  }

  char code_;
  std::size_t size_ = 0;
  std::size_t nulls_ = 0;
  std::string valid_, offsets_, data_;
  std::vector<Decoder> children_;
};

}  // namespace everview::nested

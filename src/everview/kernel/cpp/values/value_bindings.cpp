// Like machines, a value table is used without the GIL, by one thread at a time.
#include "value_bindings.h"

#include <nanobind/stl/optional.h>
#include <nanobind/stl/pair.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/unique_ptr.h>
#include <nanobind/stl/vector.h>

#include <mutex>
#include <variant>

#include "../arrow/arrow.h"
#include "../arrow/feed_columns.h"
#include "../batch/exact.h"
#include "nested.h"
#include "value_table.h"

namespace nb = nanobind;
using namespace nb::literals;

namespace everview {
namespace {

// Strings or binary that Python holds, with 32- or 64-bit offsets.
class InputValues {
 public:
  explicit InputValues(nb::handle object) : borrowed_(object, "the values") {
    const auto& [capsules, schema, array] = borrowed_;
    const std::string format = schema->format;
    const bool is_long = format == "U" || format == "Z";
    if ((!is_long && format != "u" && format != "z") || schema->dictionary != nullptr || array->n_buffers != 3) {
      raise(PyExc_TypeError, "the values must be an Arrow array of strings or binary");
    }
    column_.size = static_cast<std::size_t>(array->length);
    column_.first = static_cast<std::size_t>(array->offset);
    if (column_.size == 0) return;
    if (array->null_count != 0) column_.valid = static_cast<const std::uint8_t*>(array->buffers[0]);
    if (is_long) {
      column_.long_offsets = static_cast<const std::int64_t*>(array->buffers[1]);
    } else {
      column_.short_offsets = static_cast<const std::int32_t*>(array->buffers[1]);
    }
    static constexpr char kNothing[1] = {};  // Arrow may have no buffer where all values are empty.
    column_.bytes = array->buffers[2] == nullptr ? kNothing : static_cast<const char*>(array->buffers[2]);
  }

  const ValueColumn& operator*() const noexcept { return column_; }
  std::size_t size() const noexcept { return column_.size; }

 private:
  arrow::Borrowed borrowed_;
  ValueColumn column_;
};

// Strings or binary that are handed over: Arrow can take them once, as it takes their memory.
class OutputValues {
 public:
  using Either = std::variant<ValueArray<std::int32_t>, ValueArray<std::int64_t>>;

  OutputValues(Either values, bool text) : values_(std::move(values)), text_(text) {}

  nb::tuple take() {
    return std::visit([&](auto& values) { return take_from(values); }, values_);
  }

 private:
  template <class Offset>
  nb::tuple take_from(ValueArray<Offset>& values) {
    if (std::exchange(taken_, true)) raise(PyExc_ValueError, "the values have been taken");
    struct Owner {
      ValueArray<Offset> values;
      const void* buffers[3];
    };
    auto owner = std::make_unique<Owner>(Owner{std::move(values), {}});
    const ValueArray<Offset>& kept = owner->values;
    owner->buffers[0] = kept.nulls == 0 ? nullptr : kept.valid.data();
    owner->buffers[1] = kept.offsets.data();
    owner->buffers[2] = kept.bytes.data();
    const bool is_long = sizeof(Offset) == sizeof(std::int64_t);
    const char* const format = text_ ? (is_long ? "U" : "u") : (is_long ? "Z" : "z");
    const std::size_t size = kept.size, nulls = kept.nulls;
    return nb::make_tuple(arrow::export_schema(format), arrow::export_array(std::move(owner), size, nulls));
  }

  Either values_;
  bool text_;
  bool taken_ = false;
};

// What `translate` makes of values: an id for each.
template <class Translate>
Column ids_for(SharedValues& shared, nb::handle values, Translate&& translate) {
  const InputValues input(values);
  return shared.use([&](ValueTable& table) {
    Column ids = pooled_column(input.size());
    translate(table, *input, ids.words.get());
    return ids;
  });
}

Column encode(SharedValues& shared, ValueKind kind, nb::handle values) {
  return ids_for(shared, values, [kind](ValueTable& t, const ValueColumn& v, Word* ids) { t.encode(kind, v, ids); });
}

Column lookup(SharedValues& shared, ValueKind kind, nb::handle values) {
  return ids_for(shared, values, [kind](ValueTable& t, const ValueColumn& v, Word* ids) { t.lookup(kind, v, ids); });
}

OutputValues decode(SharedValues& shared, ValueKind kind, nb::handle ids, bool text, bool is_long) {
  const InputColumn input(ids, "the ids");
  return shared.use([&](ValueTable& table) -> OutputValues {
    if (is_long) return {table.decode<std::int64_t>(kind, input.words(), input.size()), text};
    return {table.decode<std::int32_t>(kind, input.words(), input.size()), text};
  });
}

// The ids of decimals of 128 bits with so many digits behind the point.
Column encode_decimals(SharedValues& shared, nb::handle values, unsigned scale) {
  if (scale > kStoredScale) raise(PyExc_ValueError, "a decimal has at most 38 digits behind its point");
  const arrow::Borrowed borrowed(values, "the decimals");
  const auto& [capsules, schema, array] = borrowed;
  const std::string format = schema->format;
  if (format.rfind("d:", 0) != 0 || std::count(format.begin(), format.end(), ',') != 1 || array->n_buffers != 2) {
    raise(PyExc_TypeError, "the values must be an Arrow array of decimals of 128 bits");
  }
  const auto first = static_cast<std::size_t>(array->offset), size = static_cast<std::size_t>(array->length);
  ValueColumn column;
  std::vector<StoredDecimal> stored(size);
  std::vector<std::int64_t> offsets(size + 1);
  for (std::size_t i = 0; i <= size; ++i) offsets[i] = static_cast<std::int64_t>(i * sizeof(StoredDecimal));
  const auto* const valid = array->null_count == 0 ? nullptr : static_cast<const std::uint8_t*>(array->buffers[0]);
  std::vector<std::uint8_t> bits;
  if (valid != nullptr) bits.resize(size / 8 + 1);
  for (std::size_t i = 0; i < size; ++i) {
    if (valid != nullptr) {
      if ((valid[(first + i) / 8] >> ((first + i) % 8) & 1) == 0) continue;
      bits[i / 8] = static_cast<std::uint8_t>(bits[i / 8] | 1u << (i % 8));
    }
    Exact number = 0;
    std::memcpy(&number, static_cast<const char*>(array->buffers[1]) + (first + i) * sizeof number, sizeof number);
    stored[i] = to_stored(number, scale);
  }
  column.valid = valid == nullptr ? nullptr : bits.data();
  column.long_offsets = offsets.data();
  column.bytes = reinterpret_cast<const char*>(stored.data());
  column.size = size;
  return shared.use([&](ValueTable& table) {
    Column ids = pooled_column(size);
    table.encode(kNumbers, column, ids.words.get());
    return ids;
  });
}

// The decimals of ids, of 128 bits with so many digits behind the point, and 1 where there is one; none: everywhere.
std::pair<Column, std::optional<Column>> decode_decimals(SharedValues& shared, nb::handle ids, unsigned scale) {
  if (scale > kStoredScale) raise(PyExc_ValueError, "a decimal has at most 38 digits behind its point");
  const InputColumn input(ids, "the ids");
  return shared.use([&](ValueTable& table) {
    const ValueArray<std::int64_t> found = table.decode<std::int64_t>(kNumbers, input.words(), input.size());
    std::pair<Column, std::optional<Column>> made{pooled_column(2 * input.size()), std::nullopt};
    Word* out = made.first.words.get();
    if (found.nulls != 0) made.second = constant_column(1, input.size());
    for (std::size_t i = 0; i < input.size(); ++i, out += 2) {
      out[0] = out[1] = 0;
      if (input.words()[i] == ValueTable::kNull) {
        made.second->words.get()[i] = 0;
        continue;
      }
      StoredDecimal stored;
      Exact number = 0;
      if (found.offsets[i + 1] - found.offsets[i] != sizeof stored) throw std::invalid_argument("a decimal is damaged");
      std::memcpy(stored.data(), found.bytes.data() + found.offsets[i], sizeof stored);
      if (!from_stored(stored, scale, number)) throw std::invalid_argument("a decimal has more digits than its type");
      out[0] = low_word(number);
      out[1] = high_word(number);
    }
    return made;
  });
}

// Ids, and how often each counts.
struct Uses {
  Uses(nb::handle ids_object, std::optional<nb::object> counts_object) : ids(ids_object, "the ids") {
    if (!counts_object) return;
    counts.emplace(*counts_object, "the counts");
    if (counts->size() != ids.size()) raise(PyExc_ValueError, "there must be as many counts as ids");
  }
  const Word* counted() const noexcept { return counts ? counts->words() : nullptr; }

  InputColumn ids;
  std::optional<InputColumn> counts;
};

void retain(SharedValues& shared, nb::handle ids, std::optional<nb::object> counts) {
  const Uses uses(ids, std::move(counts));
  shared.use([&](ValueTable& table) { table.retain(uses.ids.words(), uses.counted(), uses.ids.size()); });
}

void release(SharedValues& shared, nb::handle ids, std::optional<nb::object> counts) {
  const Uses uses(ids, std::move(counts));
  shared.use([&](ValueTable& table) { table.release(uses.ids.words(), uses.counted(), uses.ids.size()); });
}

void count(SharedValues& shared, nb::handle ids, nb::object counts) {
  const Uses uses(ids, std::move(counts));
  shared.use([&](ValueTable& table) { table.count(uses.ids.words(), uses.counted(), uses.ids.size()); });
}

Column uses(SharedValues& shared) {
  return shared.use([](ValueTable& table) {
    Column made = pooled_column(table.ids_end());
    for (std::size_t i = 0; i < made.size; ++i) made.words.get()[i] = table.uses(i);
    return made;
  });
}

void set_uses(SharedValues& shared, nb::handle uses) {
  const InputColumn input(uses, "the uses");
  shared.use([&](ValueTable& table) { table.set_uses(input.words(), input.size()); });
}

// The ids of a kind from one on, so many at most.
Column ids_of(SharedValues& shared, ValueKind kind, std::size_t first, std::size_t most) {
  return shared.use([&](ValueTable& table) {
    Column made = pooled_column(std::min(table.size(), most));
    made.size = 0;
    for (std::size_t i = first; i < table.ids_end() && made.size < most; ++i) {
      if (table.has(static_cast<Word>(i), kind)) made.words.get()[made.size++] = static_cast<Word>(i);
    }
    return made;
  });
}

Column uses_of(SharedValues& shared, nb::handle ids) {
  const InputColumn input(ids, "the ids");
  return shared.use([&](ValueTable& table) {
    Column made = pooled_column(input.size());
    for (std::size_t i = 0; i < made.size; ++i) {
      const auto id = static_cast<std::size_t>(input.words()[i]);
      if (id >= table.ids_end()) throw std::out_of_range("there is no such id");
      made.words.get()[i] = table.uses(id);
    }
    return made;
  });
}

bool has_all(SharedValues& shared, ValueKind kind, nb::handle ids) {
  const InputColumn input(ids, "the ids");
  return shared.use([&](ValueTable& table) {
    return std::all_of(input.words(), input.words() + input.size(),
                       [&](Word id) { return id == ValueTable::kNull || table.has(id, kind); });
  });
}

// Arrays, structs or maps as binary values, which tell them apart and have their order.
OutputValues nested_bytes(nb::handle values, const std::string& shape) {
  const arrow::Borrowed borrowed(values, "the values");
  const nested::Encoder encoder(nested::ShapeReader(shape).read(), *borrowed.schema, *borrowed.array);
  const auto size = static_cast<std::size_t>(borrowed.array->length);
  ValueArray<std::int64_t> made;
  made.offsets.make_room(size + 1);
  made.offsets.push_back(0);
  std::string bytes;
  std::vector<std::uint8_t> valid(size / 8 + 1);
  for (std::size_t i = 0; i < size; ++i) {
    const auto row = static_cast<std::int64_t>(i);
    if (encoder.is_null(row)) {
      ++made.nulls;
    } else {
      valid[i / 8] = static_cast<std::uint8_t>(valid[i / 8] | 1u << (i % 8));
      encoder.write(row, bytes);
    }
    made.offsets.push_back(static_cast<std::int64_t>(bytes.size()));
  }
  made.valid.make_room(valid.size());
  for (const std::uint8_t byte : valid) made.valid.push_back(byte);
  made.bytes.make_room(std::max<std::size_t>(bytes.size(), 1));
  made.bytes.resize(bytes.size());
  std::memcpy(made.bytes.data(), bytes.data(), bytes.size());
  made.size = size;
  return {std::move(made), false};
}

// Length, nulls, buffers and parts of an Arrow array.
nb::tuple parts_of(const nested::Decoder& decoder) {
  nb::list buffers, children;
  const auto add = [&](const std::string& bytes) { buffers.append(nb::bytes(bytes.data(), bytes.size())); };
  if (decoder.nulls() == 0) {
    buffers.append(nb::none());
  } else {
    add(decoder.valid());
  }
  if (decoder.has_offsets()) add(decoder.offsets());
  if (decoder.code() != '(' && decoder.code() != '[' && decoder.code() != '{') add(decoder.data());
  for (const nested::Decoder& child : decoder.children()) children.append(parts_of(child));
  return nb::make_tuple(decoder.size(), decoder.nulls(), buffers, children);
}

// What `nested_bytes` was given, as the parts of an Arrow array.
nb::tuple nested_parts(nb::handle values, const std::string& shape) {
  const InputValues input(values);
  nested::Decoder decoder(nested::ShapeReader(shape).read());
  for (std::size_t i = 0; i < input.size(); ++i) {
    if ((*input).is_null(i)) {
      decoder.add_null();
      continue;
    }
    std::string_view bytes = (*input)[i];
    decoder.read(bytes);
    if (!bytes.empty()) throw nested::Decoder::damaged();
  }
  return parts_of(decoder);
}

void load(SharedValues& shared, ValueKind kind, nb::handle values, nb::handle ids, nb::handle uses) {
  const InputValues input(values);
  const InputColumn numbers(ids, "the ids"), counts(uses, "the uses");
  if (numbers.size() != input.size() || counts.size() != input.size()) {
    raise(PyExc_ValueError, "values, ids and uses differ in number");
  }
  shared.use([&](ValueTable& table) { table.load(kind, *input, numbers.words(), counts.words()); });
}

}  // namespace

void bind_value_table(nb::module_& module) {
  nb::class_<OutputValues>(module, "Values", "Strings or binary, which Arrow can take once.")
      .def(
          "__arrow_c_array__", [](OutputValues& self, nb::handle) { return self.take(); },
          "requested_schema"_a.none() = nb::none());

  nb::class_<SharedValues>(module, "ValueTable", "Gives distinct values of bytes ids, and counts their uses.")
      .def(nb::init<>())
      .def("__len__", [](SharedValues& self) { return self.use([](ValueTable& table) { return table.size(); }); })
      .def("become", &SharedValues::become, "other"_a)
      .def("nbytes", [](SharedValues& self) { return self.use([](ValueTable& table) { return table.nbytes(); }); })
      .def("encode", &encode, "kind"_a, "values"_a)
      .def("lookup", &lookup, "kind"_a, "values"_a)
      .def("decode", &decode, "kind"_a, "ids"_a, "text"_a, "is_long"_a)
      .def("encode_decimals", &encode_decimals, "values"_a, "scale"_a)
      .def("decode_decimals", &decode_decimals, "ids"_a, "scale"_a)
      .def("retain", &retain, "ids"_a, "counts"_a.none() = nb::none())
      .def("release", &release, "ids"_a, "counts"_a.none() = nb::none())
      .def("count", &count, "ids"_a, "counts"_a)
      .def("collect", [](SharedValues& self) { return self.use([](ValueTable& table) { return table.collect(); }); })
      .def("begin", [](SharedValues& self) { self.use([](ValueTable& table) { table.begin(); }); })
      .def("commit", [](SharedValues& self) { self.use([](ValueTable& table) { table.commit(); }); })
      .def("roll_back", [](SharedValues& self) { self.use([](ValueTable& table) { table.roll_back(); }); })
      .def("uses", &uses)
      .def("set_uses", &set_uses, "uses"_a)
      .def("ids_of", &ids_of, "kind"_a, "first"_a, "most"_a)
      .def("uses_of", &uses_of, "ids"_a)
      .def("has_all", &has_all, "kind"_a, "ids"_a)
      .def("load", &load, "kind"_a, "values"_a, "ids"_a, "uses"_a)
      .def("finish_loading", [](SharedValues& self) { self.use([](ValueTable& table) { table.finish_loading(); }); });

  module.def("nested_bytes", &nested_bytes, "values"_a, "shape"_a);
  module.def("nested_parts", &nested_parts, "values"_a, "shape"_a);
}

}  // namespace everview

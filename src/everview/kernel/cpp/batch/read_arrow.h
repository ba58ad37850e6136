// Arrow's record batches as rows of words.
#pragma once

#include "arrow_values.h"

namespace everview {
namespace arrow {

// As in https://arrow.apache.org/docs/format/CStreamInterface.html.
struct Stream {
  int (*get_schema)(Stream*, Schema* out);
  int (*get_next)(Stream*, Array* out);
  const char* (*get_last_error)(Stream*);
  void (*release)(Stream*);
  void* private_data;
};

// What a stream gives, freed at the end.
template <class T>
struct Held {
  T item = {};
  Held() = default;
  Held(const Held&) = delete;
  Held& operator=(const Held&) = delete;
  ~Held() {
    if (item.release != nullptr) item.release(&item);
  }
};

}  // namespace arrow

class ArrowReader {
 public:
  explicit ArrowReader(RowTypes types) : types_(std::move(types)) {}

  // The rows of a stream of record batches, which are valid. `places` says for each column of the table which of the
  // stream's it is, below 0 for one that is NULL, and then the same of change types and of numbers of copies, where rows
  // have these. None if a column's type is not read here, or a value does not fit.
  std::unique_ptr<ReadRows> read(nb::handle stream_capsule, std::size_t rows, const std::vector<long>& places) const {
    auto* const stream = static_cast<arrow::Stream*>(PyCapsule_GetPointer(stream_capsule.ptr(), "arrow_array_stream"));
    if (stream == nullptr) throw nb::python_error();
    if (places.size() != types_.types.size() + 2) raise(PyExc_ValueError, "there must be as many places as columns, and two");
    arrow::Held<arrow::Schema> schema;
    if (stream->get_schema(stream, &schema.item) != 0) return nullptr;
    for (const long place : places) {
      if (place >= schema.item.n_children) raise(PyExc_IndexError, "the data has fewer columns");
    }
    auto made = types_.rows(rows);
    if (places[types_.types.size()] >= 0) made->weights = pooled_column(rows);
    std::size_t first = 0;
    while (true) {
      arrow::Held<arrow::Array> batch;
      if (stream->get_next(stream, &batch.item) != 0) return nullptr;
      if (batch.item.release == nullptr) break;
      const auto size = static_cast<std::size_t>(batch.item.length);
      if (batch.item.offset != 0 || first + size > rows) return nullptr;
      if (!put(schema.item, batch.item, places, first, size, *made)) return nullptr;
      first += size;
    }
    return first == rows ? std::move(made) : nullptr;
  }

 private:
  bool put(const arrow::Schema& schema, const arrow::Array& batch, const std::vector<long>& places, std::size_t first,
           std::size_t size, ReadRows& made) const {
    const std::size_t width = types_.types.size();
    for (std::size_t c = 0; c < width; ++c) {
      ReadColumn& column = made.columns()[c];
      if (places[c] >= 0) {
        if (!ArrowValues::put(*schema.children[places[c]], *batch.children[places[c]], first, size, column)) return false;
        continue;
      }
      for (std::size_t i = 0; i < size; ++i) {
        if (!column.put_null(first + i)) return false;
      }
    }
    const long kinds = places[width], copies = places[width + 1];
    if (kinds < 0) return true;
    Word* const weights = made.weights.words.get() + first;
    if (!ArrowValues::signs(*schema.children[kinds], *batch.children[kinds], size, weights)) return false;
    if (copies < 0) return true;
    ColumnType number;
    number.required = true;
    ReadColumn counts(number, size);
    if (!ArrowValues::put(*schema.children[copies], *batch.children[copies], 0, size, counts)) return false;
    for (std::size_t i = 0; i < size; ++i) {
      const Word count = counts.words.words.get()[i];
      if (count < 1) return false;
      weights[i] *= count;
    }
    return true;
  }

  RowTypes types_;
};

}  // namespace everview

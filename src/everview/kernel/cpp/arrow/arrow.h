// Columns in and out of Python without copying: the Arrow C Data Interface and the buffer protocol.
#pragma once

#include <nanobind/nanobind.h>

#include <string>

#include "channel.h"

namespace everview {

namespace nb = nanobind;

[[noreturn]] inline void raise(PyObject* type, const std::string& message) {
  PyErr_SetString(type, message.c_str());
  throw nb::python_error();
}

namespace arrow {

// As in https://arrow.apache.org/docs/format/CDataInterface.html.
struct Schema {
  const char* format;
  const char* name;
  const char* metadata;
  std::int64_t flags;
  std::int64_t n_children;
  Schema** children;
  Schema* dictionary;
  void (*release)(Schema*);
  void* private_data;
};

struct Array {
  std::int64_t length;
  std::int64_t null_count;
  std::int64_t offset;
  std::int64_t n_buffers;
  std::int64_t n_children;
  const void** buffers;
  Array** children;
  Array* dictionary;
  void (*release)(Array*);
  void* private_data;
};

template <class T>
void free_capsule(PyObject* capsule, const char* name) {
  auto* const item = static_cast<T*>(PyCapsule_GetPointer(capsule, name));
  if (item == nullptr) return;
  if (item->release != nullptr) item->release(item);
  delete item;
}

template <class T>
nb::object to_capsule(std::unique_ptr<T> item, const char* name, PyCapsule_Destructor destructor) {
  PyObject* const capsule = PyCapsule_New(item.get(), name, destructor);
  if (capsule == nullptr) throw nb::python_error();
  item.release();
  return nb::steal(capsule);
}

// Of words, or of the format given, which lives for ever.
inline nb::object export_schema(const char* format = "l") {
  auto schema = std::make_unique<Schema>();
  *schema = {format, "", nullptr, 2, 0, nullptr, nullptr, [](Schema* self) { self->release = nullptr; }, nullptr};
  return to_capsule(std::move(schema), "arrow_schema", [](PyObject* c) { free_capsule<Schema>(c, "arrow_schema"); });
}

// Shares the memory of `owner`, whose `buffers` these are, and keeps it alive.
template <class Owner>
nb::object export_array(std::unique_ptr<Owner> owner, std::size_t length, std::size_t nulls) {
  auto array = std::make_unique<Array>();
  const auto release = [](Array* self) {
    delete static_cast<Owner*>(self->private_data);
    self->release = nullptr;
  };
  *array = {static_cast<std::int64_t>(length), static_cast<std::int64_t>(nulls), 0, std::size(owner->buffers), 0,
            owner->buffers, nullptr, nullptr, release, owner.get()};
  nb::object capsule =
      to_capsule(std::move(array), "arrow_array", [](PyObject* c) { free_capsule<Array>(c, "arrow_array"); });
  owner.release();
  return capsule;
}

inline nb::object export_array(const Column& column) {
  struct Owner {
    Column column;
    const void* buffers[2];
  };
  auto owner = std::make_unique<Owner>(Owner{column, {nullptr, column.words.get()}});
  return export_array(std::move(owner), column.size, 0);
}

// An array that Python holds, for as long as this lives.
struct Borrowed {
  Borrowed() = default;
  Borrowed(nb::handle object, const std::string& what) : capsules(object.attr("__arrow_c_array__")()) {
    PyObject* const pair = capsules.ptr();
    if (PyTuple_Check(pair) == 0 || PyTuple_GET_SIZE(pair) != 2) {
      raise(PyExc_TypeError, what + ": __arrow_c_array__ gave no pair");
    }
    schema = static_cast<const Schema*>(PyCapsule_GetPointer(PyTuple_GET_ITEM(pair, 0), "arrow_schema"));
    if (schema == nullptr) throw nb::python_error();
    array = static_cast<const Array*>(PyCapsule_GetPointer(PyTuple_GET_ITEM(pair, 1), "arrow_array"));
    if (array == nullptr) throw nb::python_error();
    if (schema->release == nullptr || array->release == nullptr) {
      raise(PyExc_ValueError, what + ": its Arrow array has been released");
    }
  }

  nb::object capsules;
  const Schema* schema = nullptr;
  const Array* array = nullptr;
};

}  // namespace arrow

// Words that Python holds: any buffer of 8-byte items, or an Arrow array of int64 without nulls.
class InputColumn {
 public:
  InputColumn(nb::handle object, const std::string& what) {
    if (PyObject_CheckBuffer(object.ptr()) != 0) {
      read_buffer(object, what);
    } else if (nb::hasattr(object, "__arrow_c_array__")) {
      read_arrow(object, what);
    } else {
      raise(PyExc_TypeError, what + " must be a buffer of 8-byte items or an Arrow array of int64, not " +
                                 Py_TYPE(object.ptr())->tp_name);
    }
  }
  InputColumn(const InputColumn&) = delete;
  InputColumn(InputColumn&& other) noexcept
      : words_(other.words_), size_(other.size_), buffer_(other.buffer_), capsules_(std::move(other.capsules_)) {
    other.buffer_.obj = nullptr;
  }
  ~InputColumn() {
    if (buffer_.obj != nullptr) PyBuffer_Release(&buffer_);
  }

  const Word* words() const noexcept { return words_; }
  std::size_t size() const noexcept { return size_; }

 private:
  void read_buffer(nb::handle object, const std::string& what) {
    if (PyObject_GetBuffer(object.ptr(), &buffer_, PyBUF_ND | PyBUF_C_CONTIGUOUS | PyBUF_FORMAT) != 0) {
      throw nb::python_error();
    }
    if (buffer_.itemsize != sizeof(Word) || buffer_.ndim != 1 ||
        (buffer_.len != 0 && reinterpret_cast<std::uintptr_t>(buffer_.buf) % alignof(Word) != 0)) {
      PyBuffer_Release(&buffer_);
      raise(PyExc_TypeError, what + " must be a one-dimensional, aligned buffer of 8-byte items");
    }
    words_ = static_cast<const Word*>(buffer_.buf);
    size_ = static_cast<std::size_t>(buffer_.len) / sizeof(Word);
  }

  void read_arrow(nb::handle object, const std::string& what) {
    arrow::Borrowed borrowed(object, what);
    const auto& [capsules, schema, array] = borrowed;
    if (std::string(schema->format) != "l" || schema->dictionary != nullptr || array->n_buffers != 2) {
      raise(PyExc_TypeError, what + " must be an Arrow array of int64");
    }
    size_ = static_cast<std::size_t>(array->length);
    if (array->null_count != 0 && has_null(static_cast<const std::uint8_t*>(array->buffers[0]), array->offset)) {
      raise(PyExc_ValueError, what + " must have no nulls");
    }
    words_ = size_ == 0 ? nullptr : static_cast<const Word*>(array->buffers[1]) + array->offset;
    capsules_ = capsules;
  }

  bool has_null(const std::uint8_t* valid, std::int64_t offset) const noexcept {
    if (valid == nullptr) return false;
    const auto first = static_cast<std::size_t>(offset);
    for (std::size_t i = first; i < first + size_; ++i) {
      if ((valid[i / 8] >> (i % 8) & 1) == 0) return true;
    }
    return false;
  }

  const Word* words_ = nullptr;
  std::size_t size_ = 0;
  Py_buffer buffer_ = {};
  nb::object capsules_;
};

}  // namespace everview

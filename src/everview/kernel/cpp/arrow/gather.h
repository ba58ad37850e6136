// One column of many rows, taken from where the rows lie.
#pragma once

#include <span>

#include "../store/row_store.h"

namespace everview {

// The rows of groups, one group after the other.
using Groups = std::span<const std::span<const Row>>;

template <std::size_t kStride>
inline void gather_plain(const Row* __restrict rows, std::size_t count, RowsView view, std::size_t column,
                         Word* __restrict out) noexcept {
  const std::size_t stride = kStride == 0 ? view.stride : kStride;
  const Cell* const cells = view.cells + column;
  for (std::size_t i = 0; i < count; ++i) out[i] = cells[rows[i] * stride];
}

template <std::size_t kStride>
inline void gather_each(Groups groups, RowsView view, std::size_t column, Word* out) noexcept {
  for (const std::span<const Row>& rows : groups) {
    gather_plain<kStride>(rows.data(), rows.size(), view, column, out);
    out += rows.size();
  }
}

// One word of each row of the groups.
inline void gather(Groups groups, RowsView view, std::size_t column, Word* out) noexcept {
  if (column >= view.stored) {
    for (const std::span<const Row>& rows : groups) out = std::fill_n(out, rows.size(), view.shared[column]);
    return;
  }
  if (!view.plain) {
    for (const std::span<const Row>& rows : groups) {
      for (const Row row : rows) *out++ = view[row][column];
    }
    return;
  }
  switch (view.stride) {
    case 1:
      return gather_each<1>(groups, view, column, out);
    case 2:
      return gather_each<2>(groups, view, column, out);
    case 3:
      return gather_each<3>(groups, view, column, out);
    case 4:
      return gather_each<4>(groups, view, column, out);
    default:
      return gather_each<0>(groups, view, column, out);
  }
}

}  // namespace everview

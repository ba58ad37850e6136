// An index that keeps rows in the order of some key columns, and knows their ranks.
#pragma once

#include <optional>
#include <vector>

#include "row_store.h"
#include "../values/value_table.h"

namespace everview {

// A weight-balanced search tree (Hirai, Yamamoto: Balancing weight-balanced trees, 2011) whose nodes are the rows: the
// node of row r is entry r of one array, so it needs no memory of its own to add, remove or move a row. Rows come in the
// order of the index's columns, then of the other key columns; keys are unique, so the order is total, and a function of
// the rows alone: taking a change back is making the opposite one. Columns may be compared by what their words are ids of
// in a table of values; whoever fills the rows keeps those values for as long as a row has their ids.
//
// A *group* is all rows that agree with some words on the first so many of the columns. It is a range of the tree, so
// every prefix of the columns groups the rows, and nothing is kept for a group. A row's rank in its group is the number
// of rows before it; with a *measure*, a value column, it is the sum of theirs, where what is negative counts as 0.
class OrderedIndex {
 public:
  __extension__ using Sum = __int128;  // Of up to 2^31 words.

  struct Shape {
    std::vector<std::uint32_t> columns;
    std::optional<std::uint32_t> measure;  // Among the row's words, after the key.
    std::vector<std::uint32_t> by_value;   // Those of the columns whose words are ids of values.
    const ValueTable* values = nullptr;    // Where those are.
    std::vector<std::uint32_t> descending; // Those of the columns in which what is greater comes first.
  };

  OrderedIndex(Shape shape, std::size_t key_width) : shape_(std::move(shape)), order_(shape_.columns) {
    for (std::uint32_t c = 0; c < key_width; ++c) {
      if (std::find(order_.begin(), order_.end(), c) == order_.end()) order_.push_back(c);
    }
    is_by_value_.resize(key_width);
    for (const std::uint32_t c : shape_.by_value) is_by_value_[c] = true;
    is_descending_.resize(key_width);
    for (const std::uint32_t c : shape_.descending) is_descending_[c] = true;
  }

  const Shape& shape() const noexcept { return shape_; }
  std::size_t nbytes() const noexcept { return nodes_.nbytes() + sums_.nbytes(); }

  // --- changes: what may fail comes first, and nothing after it does ---

  void prepare() {
    nodes_.make_room(1);
    if (shape_.measure) sums_.make_room(1);
  }
  // The table's last row is new, and its words are there.
  void append(RowsView rows) noexcept {
    add_last();
    put(static_cast<Row>(nodes_.size() - 1), rows);
  }
  void add_last() noexcept { resize(nodes_.size() + 1); }
  void drop_last() noexcept { resize(nodes_.size() - 1); }

  // Puts a row in its place.
  void put(Row row, RowsView rows) noexcept {
    const Sum own = weight(row, rows);
    nodes_[row] = {kNoRow, kNoRow, kNoRow, 1};
    if (shape_.measure) sums_[row] = own;
    if (root_ == kNoRow) {
      root_ = row;
      return;
    }
    Row at = root_;
    for (;;) {
      Node& node = nodes_[at];
      ++node.size;
      if (shape_.measure) sums_[at] += own;
      Row& child = precedes(rows[row], rows[at]) ? node.left : node.right;
      if (child == kNoRow) {
        child = row;
        nodes_[row].parent = at;
        break;
      }
      at = child;
    }
    while (at != kNoRow) at = nodes_[balance(at)].parent;
  }

  void take_out(Row row, RowsView rows) noexcept {
    const Node node = nodes_[row];
    Row at = node.parent;  // The lowest node whose subtree has become smaller.
    if (node.left == kNoRow || node.right == kNoRow) {
      replace(row, node.left == kNoRow ? node.right : node.left);
    } else {
      const Row heir = lowest(node.right);
      at = nodes_[heir].parent == row ? heir : nodes_[heir].parent;
      replace(heir, nodes_[heir].right);
      replace(row, heir);
      nodes_[heir].left = node.left;
      nodes_[heir].right = nodes_[row].right;
      nodes_[node.left].parent = heir;
      if (nodes_[heir].right != kNoRow) nodes_[nodes_[heir].right].parent = heir;
    }
    while (at != kNoRow) {
      measure(at, rows);
      at = nodes_[balance(at)].parent;
    }
  }

  // Gives `row`'s place to number `to`; call it before the row's words move.
  void renumber(Row row, Row to) noexcept {
    nodes_[to] = nodes_[row];
    if (shape_.measure) sums_[to] = sums_[row];
    const Node& node = nodes_[to];
    if (node.left != kNoRow) nodes_[node.left].parent = to;
    if (node.right != kNoRow) nodes_[node.right].parent = to;
    link_of(row, node.parent) = to;
  }

  // A value word of a row has changed; `column` is among the row's words.
  void stored(Row row, std::size_t column, Word before, Word after) noexcept {
    if (!shape_.measure || column != *shape_.measure) return;
    const Sum change = Sum{std::max<Word>(after, 0)} - Sum{std::max<Word>(before, 0)};
    if (change == 0) return;
    for (Row at = row; at != kNoRow; at = nodes_[at].parent) sums_[at] += change;
  }

  void release() noexcept {
    nodes_.release();
    sums_.release();
  }

  void tidy() noexcept {
    nodes_.give_back();
    sums_.give_back();
  }

  // Fills an empty index with rows 0, 1, …
  void load(std::size_t count, RowsView rows) {
    Array<Row> sorted;
    sorted.make_room(count);
    for (std::size_t i = 0; i < count; ++i) sorted.push_back(static_cast<Row>(i));
    std::sort(sorted.begin(), sorted.end(), [&](Row a, Row b) { return precedes(rows[a], rows[b]); });
    nodes_.make_room(count);
    if (shape_.measure) sums_.make_room(count);
    resize(count);
    root_ = build(sorted.data(), count, kNoRow, rows);
  }

  // --- questions; a key has `width` words, for the first `width` columns ---

  // How many nodes the longest way down passes; for tests.
  std::size_t depth() const noexcept { return depth(root_); }

  // The first row of a group, whatever its measure; kNoRow if there is none.
  Row first(const Word* key, std::size_t width, RowsView rows) const noexcept {
    return if_in_group(find_bound([&](std::size_t i) { return key[i]; }, width, false, rows).neighbour, key, width, rows);
  }

  // The row at a rank of a group, or, for negative ranks, at that from its end (-1: the last); kNoRow if there is none.
  Row select(const Word* key, std::size_t width, Word rank, RowsView rows) const noexcept {
    const Bound bound = find_bound([&](std::size_t i) { return key[i]; }, width, rank < 0, rows);
    const bool is_next = !shape_.measure && (rank == 0 || rank == -1);
    return if_in_group(is_next ? bound.neighbour : at(bound.before + rank, rows), key, width, rows);
  }

  // The rank of a row in its group by the first `width` columns.
  Sum rank(Row row, std::size_t width, RowsView rows) const noexcept {
    Sum before = total(nodes_[row].left);
    for (Row at = row, parent = nodes_[at].parent; parent != kNoRow; at = parent, parent = nodes_[at].parent) {
      if (nodes_[parent].right == at) before += total(parent) - total(at);
    }
    if (width == 0) return before;
    return before - find_bound([&](std::size_t i) { return rows[row][order_[i]]; }, width, false, rows).before;
  }

  // How many ranks of the group by the first `width` of some words come before those words, one for each of the first
  // `count` columns; no row need have them.
  Sum before(const Word* key, std::size_t count, std::size_t width, RowsView rows) const noexcept {
    const auto word = [&](std::size_t i) { return key[i]; };
    const Sum all = find_bound(word, count, false, rows).before;
    return width == 0 ? all : all - find_bound(word, width, false, rows).before;
  }

  // How many ranks a group has.
  Sum size(const Word* key, std::size_t width, RowsView rows) const noexcept {
    if (width == 0) return total(root_);
    const auto word = [&](std::size_t i) { return key[i]; };
    return find_bound(word, width, true, rows).before - find_bound(word, width, false, rows).before;
  }

  // The next row of the group by the first `width` columns, upwards or downwards; kNoRow after its last.
  Row next(Row row, bool down, std::size_t width, RowsView rows) const noexcept {
    const Row next = down ? neighbour<&Node::left, &Node::right>(row) : neighbour<&Node::right, &Node::left>(row);
    if (next == kNoRow) return kNoRow;
    for (std::size_t i = 0; i < width; ++i) {
      if (rows[next][order_[i]] != rows[row][order_[i]]) return kNoRow;
    }
    return next;
  }

 private:
  struct Node {
    Row left;
    Row right;
    Row parent;
    Row size;  // Of the subtree.
  };

  // Where a group begins or ends.
  struct Bound {
    Sum before;     // The ranks up to here.
    Row neighbour;  // The first row after a beginning; the last before an end.
  };

  // No subtree weighs more than kDelta times its sibling, where an empty one weighs 1; kGamma says which rotation it
  // takes to mend that. These are the integers for which both adding and removing are proved to keep it.
  static constexpr std::uint64_t kDelta = 3;
  static constexpr std::uint64_t kGamma = 2;

  bool precedes(RowRef a, RowRef b) const noexcept {
    for (const std::uint32_t column : order_) {
      if (a[column] != b[column]) return is_before(column, a[column], b[column]);
    }
    return false;
  }

  // Whether a row with word `a` in a column comes before one with `b`, which is another word.
  bool is_before(std::uint32_t column, Word a, Word b) const noexcept {
    if (is_descending_[column]) std::swap(a, b);
    return is_by_value_[column] ? shape_.values->precedes(a, b) : a < b;
  }

  Row if_in_group(Row row, const Word* key, std::size_t width, RowsView rows) const noexcept {
    for (std::size_t i = 0; row != kNoRow && i < width; ++i) {
      if (rows[row][order_[i]] != key[i]) return kNoRow;
    }
    return row;
  }

  // Goes down to where the group of the words `word(0)`, … begins, or ends.
  template <class WordAt>
  Bound find_bound(const WordAt& word, std::size_t width, bool end, RowsView rows) const noexcept {
    Bound bound{0, kNoRow};
    for (Row at = root_; at != kNoRow;) {
      const RowRef words = rows[at];
      std::size_t i = 0;
      while (i < width && words[order_[i]] == word(i)) ++i;
      const bool is_before = i == width ? end : this->is_before(order_[i], words[order_[i]], word(i));
      if (is_before == end) bound.neighbour = at;
      if (is_before) bound.before += total(nodes_[at].left) + weight(at, rows);
      at = is_before ? nodes_[at].right : nodes_[at].left;
    }
    return bound;
  }

  // The row at a rank among all.
  Row at(Sum rank, RowsView rows) const noexcept {
    if (rank < 0) return kNoRow;
    for (Row at = root_; at != kNoRow;) {
      const Sum left = total(nodes_[at].left);
      if (rank < left) {
        at = nodes_[at].left;
        continue;
      }
      const Sum own = weight(at, rows);
      if (rank < left + own) return at;
      rank -= left + own;
      at = nodes_[at].right;
    }
    return kNoRow;
  }

  std::uint64_t weight_of(Row root) const noexcept {
    return root == kNoRow ? 1 : std::uint64_t{nodes_[root].size} + 1;
  }
  Sum total(Row root) const noexcept {
    if (root == kNoRow) return 0;
    return shape_.measure ? sums_[root] : Sum{nodes_[root].size};
  }
  Sum weight(Row row, RowsView rows) const noexcept {
    return shape_.measure ? Sum{std::max<Word>(rows[row][*shape_.measure], 0)} : 1;
  }

  // Adds up what a node's children say.
  void measure(Row row, RowsView rows) noexcept {
    Node& node = nodes_[row];
    node.size = static_cast<Row>(weight_of(node.left) + weight_of(node.right) - 1);
    if (shape_.measure) sums_[row] = total(node.left) + total(node.right) + weight(row, rows);
  }

  Row lowest(Row row) const noexcept {
    while (nodes_[row].left != kNoRow) row = nodes_[row].left;
    return row;
  }

  template <Row Node::*kAhead, Row Node::*kBehind>
  Row neighbour(Row row) const noexcept {
    if (nodes_[row].*kAhead != kNoRow) {
      row = nodes_[row].*kAhead;
      while (nodes_[row].*kBehind != kNoRow) row = nodes_[row].*kBehind;
      return row;
    }
    Row parent = nodes_[row].parent;
    while (parent != kNoRow && nodes_[parent].*kAhead == row) {
      row = parent;
      parent = nodes_[row].parent;
    }
    return parent;
  }

  // The link that leads to a node.
  Row& link_of(Row row, Row parent) noexcept {
    if (parent == kNoRow) return root_;
    return nodes_[parent].left == row ? nodes_[parent].left : nodes_[parent].right;
  }

  // Hangs `other`, which may be none, where `row` hangs.
  void replace(Row row, Row other) noexcept {
    const Row parent = nodes_[row].parent;
    link_of(row, parent) = other;
    if (other != kNoRow) nodes_[other].parent = parent;
  }

  // Mends the balance of a node whose subtrees are balanced; gives the node that stands there then.
  Row balance(Row row) noexcept {
    const std::uint64_t left = weight_of(nodes_[row].left);
    const std::uint64_t right = weight_of(nodes_[row].right);
    if (right > kDelta * left) return rotate<&Node::left, &Node::right>(row);
    if (left > kDelta * right) return rotate<&Node::right, &Node::left>(row);
    return row;
  }

  template <Row Node::*kLight, Row Node::*kHeavy>
  Row rotate(Row row) noexcept {
    const Row heavy = nodes_[row].*kHeavy;
    if (weight_of(nodes_[heavy].*kLight) >= kGamma * weight_of(nodes_[heavy].*kHeavy)) lift<kHeavy, kLight>(heavy);
    return lift<kLight, kHeavy>(row);
  }

  // Lifts a node's child of side kHeavy above it.
  template <Row Node::*kLight, Row Node::*kHeavy>
  Row lift(Row row) noexcept {
    const Row child = nodes_[row].*kHeavy;
    const Row inner = nodes_[child].*kLight;
    replace(row, child);
    if (shape_.measure) {
      const Sum all = sums_[row];
      sums_[row] = all - sums_[child] + total(inner);
      sums_[child] = all;
    }
    const Row size = nodes_[row].size;
    nodes_[row].size = static_cast<Row>(size - nodes_[child].size + weight_of(inner) - 1);
    nodes_[child].size = size;
    nodes_[row].*kHeavy = inner;
    if (inner != kNoRow) nodes_[inner].parent = row;
    nodes_[child].*kLight = row;
    nodes_[row].parent = child;
    return child;
  }

  std::size_t depth(Row row) const noexcept {
    return row == kNoRow ? 0 : 1 + std::max(depth(nodes_[row].left), depth(nodes_[row].right));
  }

  // A subtree of sorted rows; as deep as the logarithm of their number.
  Row build(const Row* sorted, std::size_t count, Row parent, RowsView rows) noexcept {
    if (count == 0) return kNoRow;
    const std::size_t middle = count / 2;
    const Row row = sorted[middle];
    nodes_[row] = {kNoRow, kNoRow, parent, 1};
    const Row left = build(sorted, middle, row, rows);
    const Row right = build(sorted + middle + 1, count - middle - 1, row, rows);
    nodes_[row].left = left;
    nodes_[row].right = right;
    measure(row, rows);
    return row;
  }

  void resize(std::size_t size) noexcept {
    nodes_.resize(size);
    if (shape_.measure) sums_.resize(size);
  }

  Shape shape_;
  std::vector<std::uint32_t> order_;  // The columns, then the other key columns.
  std::vector<bool> is_by_value_;     // Of each key column.
  std::vector<bool> is_descending_;   // The same.
  Array<Node> nodes_;
  Array<Sum> sums_;  // Of the subtrees' measures, if there is one.
  Row root_ = kNoRow;
};

}  // namespace everview

// Like machines, a census is used without the GIL, by one thread at a time.
#include "census_bindings.h"

#include <nanobind/stl/optional.h>
#include <nanobind/stl/pair.h>
#include <nanobind/stl/shared_ptr.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/tuple.h>
#include <nanobind/stl/unique_ptr.h>
#include <nanobind/stl/vector.h>

#include <mutex>

#include "../arrow/arrow.h"
#include "census.h"

namespace nb = nanobind;
using namespace nb::literals;

namespace everview {
namespace {

using census::Count;
using census::DegreeFault;
using census::LimitFault;
using census::Listing;
using census::Row;
using census::Rows;
using census::Upkeep;
using census::Vertex;

// What is refused, as plain data: "degree" with the element and its degree; "types" or "steps" with the limit; or none.
using Refusal = std::optional<std::tuple<std::string, Word, std::uint64_t>>;

struct StaleListing : std::runtime_error {
  using std::runtime_error::runtime_error;
};

class SharedCensus {
 public:
  explicit SharedCensus(const std::vector<Word>& code) {
    const census::Use use(bytes_);
    upkeep_.emplace(census::Decoder(code.data(), code.size()).decode());
  }
  ~SharedCensus() {
    const census::Use use(bytes_);
    upkeep_.reset();
  }
  SharedCensus(const SharedCensus&) = delete;
  SharedCensus& operator=(const SharedCensus&) = delete;

  template <class Act>
  auto use(Act&& act) {
    const nb::gil_scoped_release released;
    const std::lock_guard lock(mutex_);
    const census::Use use(bytes_);
    if (upkeep_->is_broken()) throw std::runtime_error("memory ran out: the census must be filled anew");
    return act(*upkeep_);
  }
  // The same for what is only freed: even if memory has run out.
  template <class Act>
  void use_quietly(Act&& act) {
    const nb::gil_scoped_release released;
    const std::lock_guard lock(mutex_);
    const census::Use use(bytes_);
    act(*upkeep_);
  }
  std::size_t nbytes() const noexcept { return bytes_ + sizeof(*this); }
  const census::Program& program() const noexcept { return upkeep_->program(); }

 private:
  std::mutex mutex_;
  std::size_t bytes_ = 0;
  std::optional<Upkeep> upkeep_;
};

using Handle = std::shared_ptr<SharedCensus>;

Refusal refusal(const LimitFault& fault) { return {{fault.types ? "types" : "steps", 0, fault.limit}}; }
Refusal refusal(const DegreeFault& fault) { return {{"degree", fault.element, fault.degree}}; }

template <class Act>
Refusal attempt(SharedCensus& self, Act&& act) {
  return self.use([&](Upkeep& upkeep) -> Refusal {
    try {
      act(upkeep);
      return std::nullopt;
    } catch (const LimitFault& fault) {
      return refusal(fault);
    } catch (const DegreeFault& fault) {
      return refusal(fault);
    }
  });
}

void apply(SharedCensus& self, std::size_t relation, nb::sequence columns, nb::handle weights) {
  const auto& relations = self.program().relations;
  if (relation >= relations.size()) raise(PyExc_IndexError, "there is no relation " + std::to_string(relation));
  std::vector<InputColumn> held;
  for (const nb::handle column : columns) held.emplace_back(column, "column " + std::to_string(held.size()));
  const InputColumn weight(weights, "the weights");
  if (held.size() != relations[relation].arity) {
    raise(PyExc_ValueError, "the relation has " + std::to_string(relations[relation].arity) + " columns, not " +
                                std::to_string(held.size()));
  }
  for (const InputColumn& column : held) {
    if (column.size() != weight.size()) raise(PyExc_ValueError, "the columns' lengths differ");
  }
  self.use([&](Upkeep& upkeep) {
    std::vector<Word> row(held.size());
    for (std::size_t i = 0; i < weight.size(); ++i) {
      for (std::size_t c = 0; c < held.size(); ++c) row[c] = held[c].words()[i];
      upkeep.apply(relation, row.data(), weight.words()[i]);
    }
  });
}

void append(Channel& out, const Upkeep& upkeep, const Row& row, std::size_t arity) {
  out.make_room(1);
  for (std::size_t i = 0; i < arity; ++i) *out.end(i) = upkeep.storage().element(row[i]);
}

// Rows that came and went: their columns, and a column of signs.
std::pair<std::vector<Column>, Refusal> take_difference(SharedCensus& self) {
  return self.use([&](Upkeep& upkeep) -> std::pair<std::vector<Column>, Refusal> {
    if (upkeep.fault()) return {std::vector<Column>(), refusal(*upkeep.fault())};
    const std::size_t arity = upkeep.program().arity;
    Channel out(arity + 1);
    upkeep.result().take_changes([&](const Row& row, bool came) {
      append(out, upkeep, row, arity);
      *out.end(arity) = came ? 1 : -1;
      out.add_rows(1);
    });
    return {out.take(), std::nullopt};
  });
}

// The low and the high half of the count.
std::tuple<std::uint64_t, std::uint64_t, Refusal> count(SharedCensus& self) {
  return self.use([](Upkeep& upkeep) -> std::tuple<std::uint64_t, std::uint64_t, Refusal> {
    if (upkeep.fault()) return {0, 0, refusal(*upkeep.fault())};
    const Count count = upkeep.result().count();
    return {static_cast<std::uint64_t>(count), static_cast<std::uint64_t>(count >> 64), std::nullopt};
  });
}

std::pair<bool, Refusal> test(SharedCensus& self, const std::vector<Word>& row) {
  if (row.size() != self.program().arity) raise(PyExc_ValueError, "a row has one element for each column");
  return self.use([&](Upkeep& upkeep) -> std::pair<bool, Refusal> {
    if (upkeep.fault()) return {false, refusal(*upkeep.fault())};
    Row vertices{};
    for (std::size_t i = 0; i < row.size(); ++i) {
      vertices[i] = upkeep.storage().find(row[i]);
      if (vertices[i] == census::kNoVertex || !upkeep.storage().in_domain(vertices[i])) return {false, std::nullopt};
    }
    return {upkeep.result().test(vertices), std::nullopt};
  });
}

class CensusCursor {
 public:
  CensusCursor(Handle shared, const std::vector<Word>& prefix) : shared_(std::move(shared)) {
    if (prefix.size() > shared_->program().arity) raise(PyExc_ValueError, "a prefix has no more elements than a row");
    shared_->use([&](Upkeep& upkeep) {
      version_ = upkeep.version();
      if (upkeep.fault()) return;
      std::vector<Vertex> vertices;
      for (const Word element : prefix) vertices.push_back(upkeep.storage().find(element));
      listing_ = std::make_unique<Listing>(upkeep.evaluator(), upkeep.result(), std::move(vertices));
      rows_.emplace(listing_->rows());
    });
  }
  ~CensusCursor() {
    shared_->use_quietly([&](Upkeep&) {
      rows_.reset();
      listing_.reset();
    });
  }

  std::pair<std::vector<Column>, Refusal> fetch(std::size_t limit) {
    return shared_->use([&](Upkeep& upkeep) -> std::pair<std::vector<Column>, Refusal> {
      if (upkeep.fault()) return {std::vector<Column>(), refusal(*upkeep.fault())};
      if (upkeep.version() != version_) throw StaleListing("the data have changed since this listing began");
      const std::size_t arity = upkeep.program().arity;
      Channel out(arity + 1);  // One more, so that rows without columns are counted.
      while (out.size() < limit && rows_->next()) {
        append(out, upkeep, rows_->row(), arity);
        *out.end(arity) = 1;
        out.add_rows(1);
      }
      return {out.take(), std::nullopt};
    });
  }

 private:
  Handle shared_;
  std::uint64_t version_ = 0;
  std::unique_ptr<Listing> listing_;
  std::optional<Rows> rows_;
};

nb::dict stats(SharedCensus& self) {
  struct Figures {
    std::size_t elements, facts, max_degree, accepted;
    std::vector<std::pair<std::size_t, std::size_t>> types;
    std::vector<std::tuple<std::size_t, std::size_t, std::uint64_t, std::size_t>> met;
    std::uint64_t compared = 0, truths, steps, total_steps;
    std::size_t sentences;
    Refusal suspended;
  };
  const Figures figures = self.use([](Upkeep& upkeep) {
    Figures f{};
    f.elements = upkeep.storage().domain_size();
    f.facts = upkeep.storage().fact_count();
    f.max_degree = upkeep.storage().max_degree();
    f.accepted = upkeep.fault() ? 0 : upkeep.result().accepted();
    for (const auto& [radius, census] : upkeep.evaluator().censuses()) f.types.emplace_back(radius, census.members().size());
    for (const auto& [key, registry] : upkeep.evaluator().registries()) {
      f.met.emplace_back(key.first, key.second, registry.met(), registry.size());
      f.compared += registry.compared();
    }
    f.truths = upkeep.evaluator().truths();
    f.sentences = upkeep.program().sentences.size();
    f.steps = upkeep.last_steps();
    f.total_steps = upkeep.total_steps();
    if (upkeep.fault()) f.suspended = refusal(*upkeep.fault());
    return f;
  });
  nb::dict types, met, known, all;
  for (const auto& [radius, count] : figures.types) types[nb::int_(radius)] = count;
  for (const auto& [radius, centres, count, kept] : figures.met) {
    const std::string name = std::to_string(radius) + "/" + std::to_string(centres);
    met[name.c_str()] = count;
    known[name.c_str()] = kept;
  }
  nb::list sentences;
  for (std::size_t i = 0; i < figures.sentences; ++i) sentences.append(nb::bool_((figures.truths >> i & 1) != 0));
  all["elements"] = figures.elements;
  all["facts"] = figures.facts;
  all["max_degree"] = figures.max_degree;
  all["types"] = types;
  all["types_met"] = met;
  all["types_known"] = known;
  all["compared"] = figures.compared;
  all["accepted_types"] = figures.accepted;
  all["sentences"] = sentences;
  all["steps"] = figures.steps;
  all["total_steps"] = figures.total_steps;
  all["suspended"] = figures.suspended;
  return all;
}

}  // namespace

void bind_census(nb::module_& module) {
  nb::exception<StaleListing>(module, "StaleListing", PyExc_RuntimeError);
  nb::class_<CensusCursor>(module, "CensusCursor", "Rows of a census, some at a time.")
      .def("fetch", &CensusCursor::fetch, "limit"_a);
  nb::class_<SharedCensus>(module, "Census", "A formula's answer, kept up to date.")
      .def(nb::new_([](const std::vector<Word>& code) { return std::make_shared<SharedCensus>(code); }), "code"_a)
      .def("begin", [](SharedCensus& self) { self.use([](Upkeep& upkeep) { upkeep.begin(); }); })
      .def("commit", [](SharedCensus& self) { self.use([](Upkeep& upkeep) { upkeep.commit(); }); })
      .def("roll_back", [](SharedCensus& self) { self.use([](Upkeep& upkeep) { upkeep.roll_back(); }); })
      .def("apply", &apply, "relation"_a, "columns"_a, "weights"_a)
      .def("settle", [](SharedCensus& self) { return attempt(self, [](Upkeep& u) { u.settle(); }); })
      .def("resume", [](SharedCensus& self) { return attempt(self, [](Upkeep& u) { u.resume(); }); })
      .def("told", [](SharedCensus& self, bool is_told) { self.use([&](Upkeep& u) { u.tell(is_told); }); }, "is_told"_a)
      .def("take_difference", &take_difference)
      .def("count", &count)
      .def("test", &test, "row"_a)
      .def("open",
           [](const Handle& self, const std::vector<Word>& prefix) { return std::make_unique<CensusCursor>(self, prefix); },
           "prefix"_a)
      .def("stats", &stats)
      .def("nbytes", &SharedCensus::nbytes);
}

}  // namespace everview

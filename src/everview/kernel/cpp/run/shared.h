// Machines and units as Python shares them: each machine with a lock around it and its units.
#pragma once

#include <nanobind/nanobind.h>

#include <memory>
#include <mutex>

#include "../values/value_bindings.h"
#include "machine.h"

namespace everview {

namespace nb = nanobind;

// A machine and the lock around it, and around its units.
class SharedMachine {
 public:
  explicit SharedMachine(std::shared_ptr<SharedValues> values) : values_(std::move(values)) {}

  template <class Use>
  auto use(Use&& use) {
    const nb::gil_scoped_release released;
    const std::lock_guard lock(mutex_);
    if (values_ == nullptr) return use(machine_);
    const std::lock_guard values_lock(values_->mutex());
    return use(machine_);
  }

  const ValueTable* values() const noexcept { return values_ == nullptr ? nullptr : &values_->table(); }
  // The table of values, to be changed within `use`; null if there is none.
  ValueTable* held_values() noexcept { return values_ == nullptr ? nullptr : &values_->held(); }

 private:
  friend class SharedUnit;

  std::mutex mutex_;
  std::shared_ptr<SharedValues> values_;  // What ordered indexes compare by; or none.
  Machine machine_;
};

using MachineHandle = std::shared_ptr<SharedMachine>;

class SharedUnit {
 public:
  SharedUnit(MachineHandle machine, Program program, bool is_logged) : machine_(std::move(machine)) {
    machine_->use([&](Machine& m) { unit_.emplace(m, std::move(program), is_logged); });
  }
  ~SharedUnit() {
    machine_->use([&](Machine&) { unit_.reset(); });
  }

  template <class Use>
  auto use(Use&& use) {
    return machine_->use([&](Machine&) {
      const Reporting reporting{linked()};
      return use(*unit_);
    });
  }

  // The unit within the machine's `use`; `report` is to be called at the end.
  Unit& held() { return linked(); }
  const MachineHandle& machine() const noexcept { return machine_; }

  // Frees all that it holds; nothing can be asked of it from then on.
  void unlink() {
    machine_->use([&](Machine&) { unit_.reset(); });
  }

  const Program& program() const { return linked().program(); }  // Its shape, which never changes.
  std::size_t number() const { return linked().number(); }

 private:
  struct Reporting {
    Unit& unit;
    ~Reporting() { unit.report(); }
  };

  const Unit& linked() const {
    if (!unit_) throw std::runtime_error("the unit has been unlinked");
    return *unit_;
  }
  Unit& linked() { return const_cast<Unit&>(std::as_const(*this).linked()); }

  MachineHandle machine_;
  std::optional<Unit> unit_;
};

using UnitHandle = std::shared_ptr<SharedUnit>;

}  // namespace everview

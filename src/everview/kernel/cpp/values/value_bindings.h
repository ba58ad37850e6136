// The value table as Python sees it.
#pragma once

#include <nanobind/nanobind.h>

#include <memory>
#include <mutex>

#include "value_table.h"

namespace everview {

// A value table and the lock around it. Whoever holds a machine's lock may take this one, and never the other way round.
class SharedValues {
 public:
  template <class Use>
  auto use(Use&& use) {
    const nanobind::gil_scoped_release released;
    const std::lock_guard lock(mutex_);
    return use(table_);
  }

  std::mutex& mutex() noexcept { return mutex_; }
  const ValueTable& table() const noexcept { return table_; }
  ValueTable& held() noexcept { return table_; }  // To be changed while the lock is held.

  // Takes over what another one holds, which is not used at the time.
  void become(SharedValues& other) {
    if (&other == this) return;
    use([&](ValueTable& own) { own.swap(other.table_); });
  }

 private:
  std::mutex mutex_;
  ValueTable table_;
};

void bind_value_table(nanobind::module_& module);

}  // namespace everview

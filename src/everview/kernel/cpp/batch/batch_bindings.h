// Batches that are run in one call, as Python sees them.
#pragma once

#include <nanobind/nanobind.h>

namespace everview {

void bind_batches(nanobind::module_& module);

}  // namespace everview

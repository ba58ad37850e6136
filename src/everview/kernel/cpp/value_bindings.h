// The value table as Python sees it.
#pragma once

#include <nanobind/nanobind.h>

namespace everview {

void bind_value_table(nanobind::module_& module);

}  // namespace everview

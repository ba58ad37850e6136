// The census as Python sees it.
#pragma once

#include <nanobind/nanobind.h>

namespace everview {

void bind_census(nanobind::module_& module);

}  // namespace everview

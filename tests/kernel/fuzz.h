// What the fuzzers share: memory that runs out when told to, and expectations that end the program.
#pragma once

#include <cstdio>
#include <cstdlib>

inline long allocations_left = -1;  // Counts down to a failure while positive; negative: memory never runs out.

inline void* reallocate_or_fail(void* memory, std::size_t bytes) {
  if (allocations_left == 0) return nullptr;
  if (allocations_left > 0) --allocations_left;
  return std::realloc(memory, bytes);
}

inline void expect(bool holds, const char* what) {
  if (holds) return;
  std::fprintf(stderr, "%s\n", what);
  std::abort();
}

// `attempt` must throw an Error: `what` must not be.
template <class Error, class Attempt>
void expect_refused(const char* what, Attempt&& attempt) {
  try {
    attempt();
  } catch (const Error&) {
    return;
  }
  expect(false, what);
}

// The problem: dynamic storage allocation (DSA). Given buffers with known lifetimes and sizes, find
// an offset for each so that no two buffers that live at the same time share an address, and the
// highest address used is as low as can be.
#ifndef REPRISE_PLANNER_CORE_INSTANCE_H_
#define REPRISE_PLANNER_CORE_INSTANCE_H_

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"

namespace reprise::planner {

// A memory request. Live in the half-open interval [lower, upper) of an abstract time: two buffers
// of which one ends where the other begins may share memory.
struct Buffer {
  int64_t lower = 0;  // first instant at which it is live
  int64_t upper = 0;  // first instant at which it is no longer live; > lower
  int64_t size = 0;   // bytes, > 0
};

// Part of a buffer's lifetime in which it needs only a part of its memory, as minimalloc's `gaps`
// column states it. Half-open; inside the owner's lifetime; the gaps of one buffer are disjoint.
struct Gap {
  uint32_t buffer = 0;  // index into Instance::buffers
  int64_t lower = 0;
  int64_t upper = 0;
  // The part [window_lower, window_upper) of the buffer, in bytes from its offset, that stays in
  // use during the gap. Empty (0, 0): nothing is in use.
  int64_t window_lower = 0;
  int64_t window_upper = 0;
};

// An instance of the problem. A plan has one offset per buffer, in the order of `buffers`.
// Invariants (checked by Validate): see each field; the sum of all sizes and every time fit int64.
struct Instance {
  std::vector<Buffer> buffers;

  // Every offset is a multiple of this, and every size counts as rounded up to it. A power of two.
  int64_t alignment = 1;

  // Stricter alignments of single buffers (powers of two). Empty: none; otherwise one per buffer.
  std::vector<int64_t> alignments;

  // Offsets that are given and must be kept; kFree where the planner decides. Empty: all free.
  std::vector<int64_t> fixed_offsets;
  static constexpr int64_t kFree = -1;

  // Sorted by (buffer, lower). Usually empty.
  std::vector<Gap> gaps;

  // The address that offset 0 will have; alignments hold for start_address + offset.
  int64_t start_address = 0;

  // A limit for the makespan. Absent: none.
  std::optional<int64_t> capacity;
};

// What messages call a buffer, by its index. Empty: "buffer 7".
using BufferName = std::function<std::string(uint32_t buffer)>;
std::string NameOf(uint32_t buffer, const BufferName& name);

// Whether the instance keeps its invariants; the message names the first buffer that does not, and
// which of its fields. Everything else in this library requires a valid instance.
absl::Status Validate(const Instance& instance, const BufferName& name = {});

// `size` rounded up to a multiple of `alignment` (a power of two); both non-negative.
constexpr int64_t RoundUp(int64_t size, int64_t alignment) {
  return (size + alignment - 1) & ~(alignment - 1);
}

}  // namespace reprise::planner

#endif  // REPRISE_PLANNER_CORE_INSTANCE_H_

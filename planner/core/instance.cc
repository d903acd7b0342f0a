#include "planner/core/instance.h"

#include <string>

#include "absl/strings/str_cat.h"

namespace reprise::planner {
namespace {

// Makespans stay below this, so that sums of two offsets never overflow.
constexpr int64_t kMaxValue = int64_t{1} << 61;

bool IsPowerOfTwo(int64_t value) { return value > 0 && (value & (value - 1)) == 0; }

absl::Status Bad(const std::string& buffer, const std::string& what) {
  return absl::InvalidArgumentError(absl::StrCat(buffer, ": ", what));
}

absl::Status ValidateGaps(const Instance& instance, const BufferName& name) {
  const auto bad = [&](uint32_t buffer, const std::string& what) {
    return Bad(NameOf(buffer, name), what);
  };
  for (size_t g = 0; g < instance.gaps.size(); ++g) {
    const Gap& gap = instance.gaps[g];
    if (gap.buffer >= instance.buffers.size()) {
      return absl::InvalidArgumentError(
          absl::StrCat("gap ", g, ": there is no buffer ", gap.buffer));
    }
    const Buffer& buffer = instance.buffers[gap.buffer];
    if (gap.lower >= gap.upper) return bad(gap.buffer, "a gap's lower is not below its upper");
    if (gap.lower < buffer.lower || gap.upper > buffer.upper) {
      return bad(gap.buffer, "a gap is outside the buffer's lifetime");
    }
    if (gap.window_lower < 0 || gap.window_lower > gap.window_upper ||
        gap.window_upper > buffer.size) {
      return bad(gap.buffer, "a gap's window is outside the buffer");
    }
    if (g == 0) continue;
    const Gap& previous = instance.gaps[g - 1];
    if (previous.buffer > gap.buffer ||
        (previous.buffer == gap.buffer && previous.lower > gap.lower)) {
      return bad(gap.buffer, "gaps are not sorted by buffer and lower");
    }
    if (previous.buffer == gap.buffer && previous.upper > gap.lower) {
      return bad(gap.buffer, "gaps overlap");
    }
  }
  return absl::OkStatus();
}

}  // namespace

std::string NameOf(uint32_t buffer, const BufferName& name) {
  return name ? name(buffer) : absl::StrCat("buffer ", buffer);
}

absl::Status Validate(const Instance& instance, const BufferName& name) {
  const auto bad = [&](size_t buffer, const std::string& what) {
    return Bad(NameOf(static_cast<uint32_t>(buffer), name), what);
  };
  const size_t n = instance.buffers.size();
  if (n >= (size_t{1} << 31)) {
    return absl::InvalidArgumentError(absl::StrCat(n, " buffers are more than 2^31 - 1"));
  }
  if (!IsPowerOfTwo(instance.alignment) || instance.alignment >= kMaxValue) {
    return absl::InvalidArgumentError(
        absl::StrCat("alignment ", instance.alignment, " is not a power of two below 2^61"));
  }
  if (!instance.alignments.empty() && instance.alignments.size() != n) {
    return absl::InvalidArgumentError(absl::StrCat("expected one alignment for each buffer, found ",
                                                   instance.alignments.size(), " for ", n));
  }
  if (!instance.fixed_offsets.empty() && instance.fixed_offsets.size() != n) {
    return absl::InvalidArgumentError(
        absl::StrCat("expected one fixed offset for each buffer, found ",
                     instance.fixed_offsets.size(), " for ", n));
  }
  if (instance.start_address < 0 || instance.start_address >= kMaxValue) {
    return absl::InvalidArgumentError(
        absl::StrCat("start address ", instance.start_address, " is outside [0, 2^61)"));
  }
  if (instance.capacity && *instance.capacity < 0) {
    return absl::InvalidArgumentError(
        absl::StrCat("capacity ", *instance.capacity, " is negative"));
  }
  // Whatever a strategy does, it needs no more than every buffer behind every other one.
  int64_t sum = instance.alignment;
  for (size_t i = 0; i < n; ++i) {
    const Buffer& buffer = instance.buffers[i];
    if (buffer.lower >= buffer.upper) {
      return bad(i, absl::StrCat("lower ", buffer.lower, " is not below upper ", buffer.upper));
    }
    if (buffer.size <= 0) return bad(i, absl::StrCat("size ", buffer.size, " is not positive"));
    if (buffer.size >= kMaxValue)
      return bad(i, absl::StrCat("size ", buffer.size, " is above 2^61"));
    int64_t need = RoundUp(buffer.size, instance.alignment);
    if (!instance.alignments.empty()) {
      const int64_t alignment = instance.alignments[i];
      if (!IsPowerOfTwo(alignment) || alignment >= kMaxValue) {
        return bad(i, absl::StrCat("alignment ", alignment, " is not a power of two below 2^61"));
      }
      if (alignment > instance.alignment) need += alignment;
    }
    if (!instance.fixed_offsets.empty() && instance.fixed_offsets[i] != Instance::kFree) {
      const int64_t offset = instance.fixed_offsets[i];
      if (offset < 0 || offset >= kMaxValue) {
        return bad(i, absl::StrCat("fixed offset ", offset, " is outside [0, 2^61)"));
      }
      const int64_t alignment =
          instance.alignments.empty() || instance.alignments[i] < instance.alignment
              ? instance.alignment
              : instance.alignments[i];
      if (((instance.start_address + offset) & (alignment - 1)) != 0) {
        return bad(i, absl::StrCat("fixed offset ", offset, " is not aligned to ", alignment));
      }
      need += offset;
    }
    if (need >= kMaxValue - sum) {
      return bad(i, "the sum of sizes, alignments and fixed offsets is above 2^61");
    }
    sum += need;
  }
  return ValidateGaps(instance, name);
}

}  // namespace reprise::planner

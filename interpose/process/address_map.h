// Where everything of ours lies in a process: one range, far from where the kernel puts anything by
// itself, reserved in recording and in replay alike. So the program's own mappings are the same in
// both, and the arena has the same address in every run.
#ifndef REPRISE_INTERPOSE_PROCESS_ADDRESS_MAP_H_
#define REPRISE_INTERPOSE_PROCESS_ADDRESS_MAP_H_

#include <stdint.h>

namespace reprise::interpose {

inline constexpr uint64_t kGiB = uint64_t{1} << 30;

// [begin, begin + bytes).
struct Range {
  uint64_t begin;
  uint64_t bytes;
  constexpr bool Contains(uint64_t address) const { return address - begin < bytes; }
  constexpr bool Contains(const void* pointer) const {
    return Contains(reinterpret_cast<uint64_t>(pointer));
  }
};

inline constexpr Range kReserved = {0x2a0000000000, 2048 * kGiB};
inline constexpr Range kControl = {kReserved.begin, 64 * kGiB};  // state, registry, plan, stats
inline constexpr Range kSpool = {kReserved.begin + 64 * kGiB, 256 * kGiB};
inline constexpr Range kArena = {kReserved.begin + 512 * kGiB, 512 * kGiB};
inline constexpr Range kSideHeap = {kReserved.begin + 1536 * kGiB, 64 * kGiB};

// Parts of kControl.
inline constexpr Range kSessionMap = {kControl.begin + kGiB / 2, kGiB / 4};
inline constexpr Range kTakenMap = {kSessionMap.begin + kSessionMap.bytes, kGiB / 4};
inline constexpr Range kRegistryMap = {kControl.begin + 1 * kGiB, 1 * kGiB};
inline constexpr Range kCountersMap = {kControl.begin + 2 * kGiB, 1 * kGiB};
inline constexpr Range kStackMap = {kControl.begin + 3 * kGiB, 1 * kGiB};  // record --stacks
inline constexpr Range kArenaState = {kControl.begin + 4 * kGiB, 28 * kGiB};
inline constexpr Range kPlanMap = {kControl.begin + 32 * kGiB, 32 * kGiB};

// Whether a pointer is one of ours, whatever kind.
constexpr bool IsOurs(const void* pointer) { return kReserved.Contains(pointer); }

}  // namespace reprise::interpose

#endif  // REPRISE_INTERPOSE_PROCESS_ADDRESS_MAP_H_

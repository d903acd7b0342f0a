#include "interpose/give_back.h"

#include "base/page.h"
#include "base/system_call.h"
#include "interpose/process/address_limit.h"
#include "interpose/process/address_map.h"
#include "interpose/process/images.h"
#include "interpose/process/process.h"
#include "interpose/process/side_heap.h"
#include "interpose/record/spool_chunks.h"
#include "interpose/record/stacks.h"
#include "interpose/replay/replay_setup.h"
#include "interpose/replay/replayer.h"
#include "interpose/startup.h"

namespace reprise::interpose {
namespace {

// Unmaps what lies between the parts that are kept, which are told in the order of addresses.
class Gaps {
 public:
  explicit Gaps(uint64_t begin) : at_(begin) {}
  void Keep(uint64_t begin, uint64_t bytes) {
    constexpr uint64_t kPage = base::kPageBytes;
    if (bytes == 0) return;
    if (begin > at_) {
      SystemCall(SYS_munmap, static_cast<long>(at_), static_cast<long>(begin - at_));
    }
    at_ = (begin + bytes + kPage - 1) & ~(kPage - 1);
  }

 private:
  uint64_t at_;
};

void GiveBack(uint64_t limit) {
  const SignalBlock block;
  const uint64_t plans = process.session != nullptr ? process.session->plans : 0;
  const uint64_t registry = RegistryBytes(limit);
  const uint64_t image = (uint64_t{process.image_number} + 1) * sizeof(ImageEntry);
  Gaps gaps(kReserved.begin);
  gaps.Keep(kSessionMap.begin, sizeof(SessionFile) + plans * sizeof(PlanEntry));
  gaps.Keep(kTakenMap.begin, plans * sizeof(uint32_t));
  const uint64_t used = sizeof(Registry) + image;
  const uint64_t kept = registry > used ? registry : used;
  if (EntriesIn(kept) < process.entries) process.entries = EntriesIn(kept);
  gaps.Keep(kRegistryMap.begin, kept);
  gaps.Keep(kCountersMap.begin, ReplayCounterBytes());
  gaps.Keep(kStackMap.begin, ShrinkStacks(limit));
  gaps.Keep(kArenaState.begin, ReplayStateBytes());
  gaps.Keep(kPlanMap.begin, ReplayPlanBytes());
  gaps.Keep(kSpool.begin, ShrinkSpool(limit));
  gaps.Keep(kArena.begin, ReplayBlockBytes());
  gaps.Keep(kSideHeap.begin, kSideHeap.bytes);
  gaps.Keep(kReserved.begin + kReserved.bytes, 1);
  CutSideHeap();
  const bool replays = process.mode >= Mode::kReplay || process.mode == Mode::kReplayChild;
  if (replays && !IsBusy()) CutReplay();
}

}  // namespace

void BeforeLimit(int resource, const rlimit* limit) {
  if (limit == nullptr || limit->rlim_cur == RLIM_INFINITY || limit->rlim_cur > limit->rlim_max) {
    return;
  }
  if (resource != RLIMIT_AS && resource != RLIMIT_DATA) return;
  NoticeProcess();
  // A child of vfork has its parent's memory, and not its limits.
  if (!process.reserved || process.given_back || (process.image != nullptr && !IsOwnImage())) {
    return;
  }
  GiveBack(limit->rlim_cur);
}

}  // namespace reprise::interpose

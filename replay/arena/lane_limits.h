// The numbers that a lane goes by (lane.h): how far it looks, how much it misses before it gives
// up. docs/internals/experiments.md has measurements behind some of them.
#ifndef REPRISE_REPLAY_ARENA_LANE_LIMITS_H_
#define REPRISE_REPLAY_ARENA_LANE_LIMITS_H_

#include <stdint.h>

namespace reprise::replay {

struct LaneLimits {
  static constexpr uint32_t kConfirm = 4;      // requests that must match before a jump
  static constexpr uint64_t kLookAhead = 256;  // words looked at per unmatched request
  static constexpr uint64_t kMostLookAhead = 1 << 20;
  static constexpr int64_t kFreeAhead = 4096;  // words looked at for the free of a block
  static constexpr int64_t kBehind = 256;      // and for its allocation
  // A miss is made up for by so many words that are followed, more than kAWhile of them in a row;
  // one that differed only in length by one word. A lane to which more than kMostMissed are wanting
  // runs free: a burst of misses is better borne than the order lost.
  static constexpr uint64_t kMiss = 16;
  static constexpr uint64_t kAWhile = 8;
  static constexpr uint64_t kMostMissed = 128 * kMiss;
  // So much annex, bytes and a share of the box, for planned blocks while other threads are late to
  // free what is in the way is borne; with more the lane runs free.
  static constexpr uint64_t kMostAwaited = 16 << 10;
  static constexpr uint64_t kMostAwaitedShare = 1024;
  static constexpr uint64_t kNear = 256;      // granules: those of a page
  static constexpr int64_t kRareAhead = 128;  // words in which rare keys are looked for
  static constexpr uint64_t kNoSample = UINT64_MAX;
  static constexpr uint32_t kSkipped = 8;  // planned allocations that are remembered
  static constexpr uint64_t kRecent = 6;   // blocks that other threads freed: the same cache line
  // Planned blocks are noted once it was asked so often how long one is or whether one is live, and
  // for one in so many words: a note costs every allocation a few nanoseconds, to look one up takes
  // some microseconds.
  static constexpr int64_t kAsksBeforeNoting = 64;
  static constexpr int64_t kFarFreesBeforeNoting = 1024;
  static constexpr int64_t kWordsPerAsk = 1024;
  // Gaps, or units of the bitmaps with gaps, looked at one after the other.
  static constexpr int32_t kFewGaps = 16;
  // The same before more of the annex is used, for each granule of the block.
  static constexpr int32_t kLooks = 8;
  static constexpr uint32_t kProbes = 32;  // planned places tried per request
  // Of the box: kept places that are worth a release, and before more of the annex is used.
  static constexpr uint64_t kKeptShare = 8;
  static constexpr uint64_t kKeptShareForMore = 128;
  // While kept places of the annex are taken, the box is looked into once in so many times; where
  // nothing is found, less and less often. More often it takes more places of the box for one kind
  // of request than it needs, and others go to the annex.
  static constexpr uint32_t kLeastLook = 256;
  static constexpr uint32_t kMostLook = 4096;
  static constexpr uint64_t kMostCarved = 64;  // granules of each place made of a gap
  static constexpr int32_t kEffort = 16;       // places and gaps to look at, earned per request
  static constexpr int32_t kFirstEffort = 1 << 16;
  static constexpr int32_t kMostEffort = 1 << 24;
  static constexpr int32_t kEffortOfKept = 2;  // the same, by one that found what was kept
  static constexpr uint64_t kMostAtOnce = kMostEffort / kEffortOfKept;  // requests
  // A lane that runs free looks for idle pages once in so many requests that find nothing kept or
  // are long, and one more for so many of its pages, and when the granules that are taken have
  // become less by so many and such a share. One that is given back, and cleared when it is used
  // again, costs as much as to look at so many places. Where what is known of gaps is wrong for
  // such a share of the pages, it is found anew.
  static constexpr uint64_t kLookForIdle = 512;
  static constexpr uint64_t kPagesARequest = 32;
  static constexpr uint64_t kFall = 4096;
  static constexpr uint64_t kFallShare = 16;
  static constexpr uint64_t kFewestGiven = 4;   // pages side by side
  static constexpr uint64_t kLongRun = 16;      // the same at a fall, and where pages are dear
  static constexpr uint64_t kTakenAtOnce = 16;  // of these, when one of them is used again
  static constexpr int32_t kEffortOfPage = 256;
  static constexpr uint64_t kMistakenShare = 8;
  // A lane rests when so many requests of a window found their budget spent, or no place.
  static constexpr uint32_t kWindow = 1 << 12;
  static constexpr uint32_t kLessAgain = 16;  // of a window after the first rest
  static constexpr uint32_t kMostRests = 10;
  // Of the first so many planned places that were taken it is noted what was in the way, and of one
  // in kNamed later; of one in kNamed of a lane that runs free.
  static constexpr uint64_t kAllNamed = 1 << 12;
  static constexpr uint32_t kNamed = 16;
  static constexpr uint64_t kRestsAtOnce = 1024;  // what others have freed must wait for as long
};

}  // namespace reprise::replay

#endif  // REPRISE_REPLAY_ARENA_LANE_LIMITS_H_

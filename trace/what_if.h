// What the load would be if the blocks of one call site were treated otherwise.
#ifndef REPRISE_TRACE_WHAT_IF_H_
#define REPRISE_TRACE_WHAT_IF_H_

#include <cstdint>
#include <map>
#include <utility>
#include <vector>

#include "trace/event.h"
#include "trace/recording.h"

namespace reprise::trace {

// For one call site (its return address): the most bytes needed at one time, blocks rounded up
// to 16.
struct WhatIf {
  uint32_t site = kNone;
  uint64_t peak_bytes = 0;  // the most that the site itself holds at one time
  // If each of its blocks were freed by the next event. A recording knows no uses, so this is the
  // most that earlier frees can gain.
  uint64_t freed_at_once = 0;
  // If its blocks had a pool of their own, for the whole run, as large as they need at most.
  uint64_t pooled = 0;
  // If they had a lane of their own: such a pool from its first block to the end of its last.
  uint64_t own_lane = 0;
};

// Takes the events of one recording in order. Memory: proportional to sites.
class WhatIfBuilder {
 public:
  // `sites`: indices into recording.sites whose places are asked about; kNone is left out. The
  // recording has the sites of the events by the time they come, and must outlive the builder.
  WhatIfBuilder(const Recording& recording, const std::vector<uint32_t>& sites);

  void Add(const Event& event);

  // In the order of `sites`.
  std::vector<WhatIf> Finish() const;

 private:
  struct Candidate {
    WhatIf result;
    uint64_t load = 0;          // of its blocks, now
    uint64_t blocks = 0;        // live
    uint64_t most_rest = 0;     // of all others, over the whole run
    uint64_t most_in_lane = 0;  // of all others, since its first block
    uint64_t most_at_end = 0;   // the same, up to its last free
    uint64_t most_freed = 0;
    bool begun = false;
  };

  const Recording& recording_;
  std::vector<Candidate> candidates_;
  std::map<SitePlace, uint32_t> places_;
  std::vector<uint32_t> candidate_of_;  // per site; kNone: none
  uint64_t load_ = 0;
};

}  // namespace reprise::trace

#endif  // REPRISE_TRACE_WHAT_IF_H_

// What each call site allocated, held and left behind over a whole recording.
#ifndef REPRISE_TRACE_SITE_ACCOUNTS_H_
#define REPRISE_TRACE_SITE_ACCOUNTS_H_

#include <cstdint>
#include <map>
#include <utility>
#include <vector>

#include "trace/event.h"
#include "trace/recording.h"

namespace reprise::trace {

// All sizes are bytes as requested. Sites that differ only in their stack depth count as one.
struct SiteAccount {
  uint32_t site = kNone;     // one of those sites
  uint64_t blocks = 0;       // allocated over the whole recording
  uint64_t bytes = 0;        // in them
  uint64_t lifetimes = 0;    // events, summed; a block that is never freed lives to the end
  uint64_t short_lived = 0;  // blocks that were freed by the very next event of the recording
  uint64_t most_bytes = 0;   // that this site held at one time
  uint64_t most_blocks = 0;  // at that time
  uint64_t peak_blocks = 0;  // held when the recording's load was at its maximum
  uint64_t peak_bytes = 0;
  uint64_t end_blocks = 0;  // never freed
  uint64_t end_bytes = 0;
};

// Takes the events of one recording in order. Memory: proportional to sites and live blocks.
class SiteAccountsBuilder {
 public:
  // `recording`: has the sites of the events by the time they come; must outlive the builder.
  // `peak_event`: after which event the accounts' peak_* are read.
  SiteAccountsBuilder(const Recording& recording, uint64_t peak_event)
      : recording_(recording), peak_event_(peak_event) {}

  void Add(const Event& event);

  // Most bytes at the peak first, then most bytes, then by place. The recording must be complete.
  std::vector<SiteAccount> Finish();

 private:
  struct Load {
    SiteAccount account;
    uint64_t bytes = 0, blocks = 0;  // now
    uint64_t births = 0;             // sum of the birth events of live blocks
  };
  Load& At(uint32_t site);
  void ReadPeak();

  const Recording& recording_;
  uint64_t peak_event_;
  bool peak_read_ = false;
  std::vector<Load> loads_;         // per place
  std::vector<uint32_t> place_of_;  // entry 0: no site; n: site n - 1
  std::map<SitePlace, uint32_t> places_;
};

}  // namespace reprise::trace

#endif  // REPRISE_TRACE_SITE_ACCOUNTS_H_

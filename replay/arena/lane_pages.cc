// The pages of a lane that runs free: given back where nothing lives, when others need more
// (held_memory.h).
#include <sys/mman.h>

#include "replay/arena/lane.h"

namespace reprise::replay {

// The last ones first: what is searched for a place begins at the front.
void Lane::GiveBack() {
  const uint64_t pages = UsedEnd() / kPageGranules;
  answered_ = held_->Asks();
  until_give_ = static_cast<uint32_t>(kGiveEvery + pages / kPagesARequest);
  if (keeps_pages_) return;
  const uint64_t box_pages = box_granules_ / kPageGranules;
  const auto is_idle = [this](uint64_t page) {
    return !given_.Has(page) &&
           !late_cover_.HasAny(page * kPageGranules, (page + 1) * kPageGranules);
  };
  uint64_t end = pages;
  while (end > 0 && effort_ >= kFirstEffort) {
    const uint64_t affordable = static_cast<uint64_t>(effort_ / kEffortOfPage);
    uint64_t wanted = held_->Wanted() / kBoxAlignment;
    if (wanted == 0) break;
    if (wanted > affordable) wanted = affordable;
    const uint64_t limit = end > box_pages ? box_pages : 0;  // the annex is not next to the box
    uint64_t begin = end;
    while (begin > limit && end - begin < wanted && is_idle(begin - 1)) given_.Add(--begin);
    const uint64_t given = end - begin;
    if (given != 0) {
      madvise(AddressOf(begin * kPageGranules), given * kBoxAlignment, MADV_DONTNEED);
      given_pages_ += given;
      held_->Give(given * kBoxAlignment);
      effort_ -= static_cast<int32_t>(given) * kEffortOfPage;
    }
    end = given != 0 ? begin : end - 1;
  }
  effort_ -= static_cast<int32_t>((pages - end) / kPagesALook);
}

// Something is placed there.
void Lane::TakeAgain(uint64_t granule, uint64_t granules) {
  uint64_t pages = 0;
  for (uint64_t page = granule / kPageGranules; page * kPageGranules < granule + granules; ++page) {
    if (!given_.Has(page)) continue;
    given_.Remove(page);
    ++pages;
  }
  if (pages == 0) return;
  given_pages_ -= pages;
  held_->Take(pages * kBoxAlignment);
}

}  // namespace reprise::replay

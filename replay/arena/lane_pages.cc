// The pages of a lane that runs free: given back where nothing lives, when the lanes need more than
// ever (held_memory.h), when much less is taken than before, and now and then.
#include "base/give_back.h"
#include "replay/arena/lane.h"

namespace reprise::replay {

// Looks for such pages.
void Lane::LookForIdle() {
  if (until_idle_ == 0) {
    until_idle_ = static_cast<uint32_t>(kLookForIdle + UsedEnd() / kPageGranules / kPagesARequest);
    if (!keeps_pages_) GiveIdle(FewestGiven(), UINT64_MAX);
  }
  const uint32_t asks = held_->Asks();
  if (asks == answered_ || keeps_pages_) return;
  answered_ = asks;
  GiveIdle(FewestGiven(), held_->Wanted() / kBoxAlignment);
}

bool Lane::IsIdle(uint64_t page) const {
  return !given_.Has(page) && !late_.HasAny(page * kPageGranules, (page + 1) * kPageGranules);
}

// How many pages the lane can afford to give back now, and have as much left as it began with:
// where blocks lie is not to depend on what pages cost.
uint64_t Lane::Affordable() const {
  return effort_ < kFirstEffort ? 0
                                : static_cast<uint64_t>((effort_ - kFirstEffort) / kEffortOfPage);
}

// At most so many, and as the lane can afford, where `fewest` or more are side by side: in the gaps
// that are known, the longest first, because a block takes these last. Where what is known is wrong
// it is found anew, for the next time.
void Lane::GiveIdle(uint64_t fewest, uint64_t most) {
  const uint64_t affordable = Affordable();
  if (most > affordable) most = affordable;
  if (!long_gaps_.HasAll()) {
    GiveIdleOf(OpenPart(box_granules_), fewest, &most);
    GiveIdleOf(OpenPart(0), fewest, &most);
    return;
  }
  uint64_t patience = 1 + UsedEnd() / kPageGranules / kMistakenShare;
  long_gaps_.EachLongest(fewest * kPageGranules, [&](LongGaps::Range gap) {
    const uint64_t mistaken = GiveIdleOf(gap, fewest, &most);
    patience -= mistaken < patience ? mistaken : patience;
    return most >= fewest && patience > 0;
  });
  if (patience == 0) NoteLongGaps();
}

// Of the whole pages of a range, and takes them from `most`. How many have something live is told.
uint64_t Lane::GiveIdleOf(LongGaps::Range range, uint64_t fewest, uint64_t* most) {
  uint64_t live = 0;
  const uint64_t end = range.end / kPageGranules;
  uint64_t page = (range.begin + kPageGranules - 1) / kPageGranules;
  for (; page < end && *most >= fewest; ++page) {
    const uint64_t begin = page;
    while (page < end && page - begin < *most && IsIdle(page)) ++page;
    if (page - begin >= fewest) {
      Give(begin, page);
      *most -= page - begin;
    }
    live += page < end && !given_.Has(page) ? 1 : 0;
  }
  return live;
}

// Much less is taken than before: a task has ended, or what it worked on is gone. Its thread may
// not ask for anything more for long. What is kept was for that task.
void Lane::GiveFallen() {
  if (keeps_pages_) return;
  ReleaseKept();
  most_taken_ = taken_;
  GiveIdle(kLongRun, UINT64_MAX);
}

void Lane::Give(uint64_t begin, uint64_t end) {
  effort_ -= static_cast<int32_t>(end - begin) * kEffortOfPage;
  const uint64_t bytes = (end - begin) * kBoxAlignment;
  if (!GiveBack(AddressOf(begin * kPageGranules), bytes)) return;
  for (uint64_t page = begin; page < end; ++page) given_.Add(page);
  given_pages_ += end - begin;
  held_->Give(bytes);
  DropTable(begin, end);
}

// Of the bitmaps of late blocks, those pages that tell of nothing but what was given back, now that
// [begin, end) is. They are zeros.
void Lane::DropTable(uint64_t begin, uint64_t end) const {
  constexpr uint64_t kPagesTold = BlockSet::kPageTells / kPageGranules;  // pages that one tells of
  const uint64_t lowest = begin > kPagesTold ? begin - kPagesTold : 0;
  const uint64_t pages = Granules() / kPageGranules;
  const uint64_t highest = end + kPagesTold < pages ? end + kPagesTold : pages;
  uint64_t first = begin;
  while (first > lowest && given_.Has(first - 1)) --first;
  uint64_t last = end;
  while (last < highest && given_.Has(last)) ++last;
  constexpr uint64_t kPage = kBoxAlignment;
  const auto byte_of = [at = reinterpret_cast<uint64_t>(late_.memory())](uint64_t page) {
    return at + page * kPage / kPagesTold;
  };
  const uint64_t least = byte_of(begin) & ~(kPage - 1);
  uint64_t from = (byte_of(first) + kPage - 1) & ~(kPage - 1);
  from = from < least ? least : from;
  const uint64_t most = (byte_of(end) + kPage - 1) & ~(kPage - 1);
  uint64_t to = byte_of(last) & ~(kPage - 1);
  to = to > most ? most : to;
  if (from < to) GiveBack(reinterpret_cast<void*>(from), to - from);
}

// Something is placed there. Pages that follow are likely to be next: a few come at once, because
// one by one, each when it is touched, costs several times as much.
void Lane::TakeAgain(uint64_t granule, uint64_t granules) {
  const uint64_t end = (granule + granules - 1) / kPageGranules + 1;
  const uint64_t box_pages = box_granules_ / kPageGranules;
  for (uint64_t page = granule / kPageGranules; page < end; ++page) {
    if (!given_.Has(page)) continue;
    const uint64_t begin = page;
    uint64_t limit = end > begin + kTakenAtOnce ? end : begin + kTakenAtOnce;
    if (begin < box_pages && limit > box_pages) limit = box_pages;
    while (page < limit && given_.Has(page)) given_.Remove(page++);
    given_pages_ -= page - begin;
    held_->Take((page - begin) * kBoxAlignment);
    if (page - begin > 1 && granules * kGranule < kLongBlock) {
      Populate(AddressOf(begin * kPageGranules), (page - begin) * kBoxAlignment);
    }
  }
}

}  // namespace reprise::replay

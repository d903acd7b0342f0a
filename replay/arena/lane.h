// A lane in replay: serves one thread's allocations from the thread's part of the plan.
//
// The lane follows its stream (plan_format.h) with a cursor. While the thread does what the
// recording did, nothing is kept per block and nothing is tested, because the plan was checked
// beforehand. What makes it exact when the run deviates is one invariant, true between any two
// calls:
//
//     live = (planned live at the cursor - early) + late
//
//   early: planned live, but not live: its allocation was skipped or went to the fallback, or the
//          program freed it sooner than planned. Named by its offset, which is unambiguous, because
//          blocks that are planned live at one time are disjoint.
//   late:  live, but its planned free has been passed.
//
// A planned block may be placed iff no late block overlaps it: that is the guard, and it is always
// on. Passing a planned free of b: when b is early it stops being early, otherwise it becomes late.
// Passing a planned allocation: it becomes early. free(b): when the stream expects just that, pass
// it; else when b is late it stops being late; else it becomes early. Whether the plan has a live
// block where something is freed out of turn is looked for among the words ahead and then among the
// placements; a lane that has to do so often notes its planned blocks instead (block_notes.h).
//
// A request from the call site that the stream expects, but of another length, takes the turn of
// the expected one: its place, too, if that is long enough. One guess is to be confirmed before the
// next. Any other request that is not the expected one gets another place. If the next one is what
// the stream expects after it, the two differ in their lengths only: the lane goes on there. After
// four such requests it looks ahead for four allocations in a row that match them: two or three
// match by chance too often, and a wrong jump costs more than it gains.
//
// A lane that keeps missing, and does not follow enough in between, runs free: its thread does the
// same kind of work in another order (LevelDB's compactions). So does one that needs much memory
// while other threads are late to free what is in its way. From then on every live block counts as
// late, so the same guard holds, and a request takes the next place in turn that the plan has for
// its shape and call site (slot_index.h), if that place is free (and, in a small lane, lower than
// the first gap), and else any gap that is long enough, of the box or of the annex, a range behind
// all boxes that makes up for another order packing less tightly. A long block takes the shortest
// gap that is long enough at once (long_gaps.h). Blocks that are freed keep their places for the
// next request of the same length (kept_places.h), unless they are long: they stay late, as far as
// the guard is concerned. Looking for places has a budget per request,
// part of which can be saved up. Where that does not do, the request goes to the fallback. A lane
// whose budget keeps being spent, or that finds no place for most requests, rests: for a while
// everything new goes there, unlooked at, four times as long each time. A plan that fits the run
// badly then costs what the fallback costs, and little more. A lane that runs free gives pages back
// in which nothing lives: when all lanes together need more memory than ever (held_memory.h), and
// where nothing has lived for long.
//
// Thread-safety: a lane belongs to one thread. Other threads hand blocks back with FreeRemotely.
// Hook-safe. Nothing here allocates, locks or fails.
#ifndef REPRISE_REPLAY_ARENA_LANE_H_
#define REPRISE_REPLAY_ARENA_LANE_H_

#include <stdint.h>

#include <optional>

#include "base/owned.h"
#include "replay/arena/block_notes.h"
#include "replay/arena/block_set.h"
#include "replay/arena/granule_set.h"
#include "replay/arena/held_memory.h"
#include "replay/arena/kept_places.h"
#include "replay/arena/lane_limits.h"
#include "replay/arena/lane_notes.h"
#include "replay/arena/last_place.h"
#include "replay/arena/live_keys.h"
#include "replay/arena/long_gaps.h"
#include "replay/arena/slot_index.h"
#include "replay/plan/counters.h"
#include "replay/plan/plan_format.h"
#include "replay/plan/stream.h"

namespace reprise::replay {

class Lane : private LaneLimits {
 public:
  // So much annex is no waste for any lane, bytes.
  static constexpr uint64_t kLeastAnnex = 1 << 20;
  // Shared by all lanes: half of so much is annex for what other lanes should have done, bytes.
  static constexpr uint64_t kMostOfOthers = 1 << 30;

  // Where the lane's blocks go.
  struct Room {
    char* box;             // lane.box_bytes, at least as aligned as the plan's box
    char* annex;           // page-aligned
    uint64_t annex_bytes;  // at most AnnexBytes(plan, lane); 0: none
    bool releases;         // pages of the box that the plan leaves idle are given back
    bool dear_pages;       // a lane that runs free gives back long runs of pages only
    bool crowded;          // other blocks may lie some 32 to 64 GiB behind the box
    HeldMemory* held;      // of all lanes
  };

  // Everything must outlive the lane. `state` is StateBytes(...) of zeroed memory.
  void Start(const PlanHeader* plan, const PlanLane* lane, const LiveKeys& keys, const Room& room,
             void* state, LaneCounters* counters, LaneNotes notes);
  static uint64_t StateBytes(const PlanHeader& plan, const PlanLane& lane);

  // The annex that a lane should have, in whole pages: half of its box; where there are other lanes
  // half of all boxes, because a thread may have to do what another one did when it was recorded
  // (of LevelDB's writers one leads the others). It is only addresses until it is used, and what is
  // used is counted.
  static uint64_t AnnexBytes(const PlanHeader& plan, const PlanLane& lane) {
    const uint64_t share = kMostOfOthers / plan.lanes.count;
    const uint64_t others = plan.arena_bytes < share ? plan.arena_bytes : share;
    const uint64_t bytes =
        plan.lanes.count > 1 && lane.box_bytes < others ? others : lane.box_bytes;
    const uint64_t half = (bytes / 2 + kBoxAlignment) & ~(kBoxAlignment - 1);
    return half > kLeastAnnex ? half : kLeastAnnex;
  }

  // The planned place for a request, or null: the request goes to the fallback.
  [[gnu::hot]] void* Allocate(uint64_t shape, uint64_t site);

  // How a malloc, of any size, differs from what the stream of a lane that follows it expects, that
  // is the word at Next(). 0: not at all; kWithCare: not at all, and it is to be placed with care;
  // else it is another one. Nothing has happened yet. `caller` tells where on the stack the return
  // address is: slot(), and return_address().
  static constexpr uint64_t kWithCare = uint64_t{1} << kAddressBits;
  const uint32_t* Next() const { return cursor_.Seen(); }
  template <typename Caller>
  [[gnu::always_inline]] uint64_t Differs(const uint32_t* next, uint64_t size,
                                          Caller caller) const {
    // What is no allocation is a number below zero and leads to where there are no keys.
    const int64_t word = static_cast<int32_t>(*next);
    int64_t at = (word >> offset_bits_) * int64_t{sizeof(LiveKey)};
    const auto key = [this, &at] {
      return reinterpret_cast<const LiveKey*>(reinterpret_cast<const char*>(keys_) + at);
    };
    if (__builtin_expect(key()->shape != PlainShape(size), 0)) return kAnother;
    KeepApart(at);
    uint64_t site = (caller.slot() << kFrameShift) - caller.return_address();
    KeepApart(site);
    return site - frames_ + key()->site;
  }
  // Where the stack of the lane's thread begins, from which depths are counted. To be told before
  // Differs is asked.
  void SetStackBase(uint64_t base) {
    stack_base_ = base;
    SetCare(care_);
  }

  // Places that allocation: plainly, or where there are late blocks in the box, lengths
  // are noted or the box is large, with care. Then it may be null, among late blocks for long ones
  // in any case, and nothing has happened: PlaceAsExpected finds another place, if there is one,
  // and may be what makes the lane leave its stream.
  bool TakesCare() const { return care_ != 0; }
  void* PlacePlainly(const uint32_t* next) {
    const uint64_t granule = *next & offset_mask_;
    cursor_ = next + 1;
    return box_ + granule * kGranule;
  }
  void* PlaceWithCare() {
    const uint32_t* next = cursor_;
    const uint32_t granule = *next & offset_mask_;
    const uint32_t key = *next >> offset_bits_;
    if (care_ != calm_) {
      const uint64_t granules = key_granules_[key];
      if (granules >= LiveKeys::kLong) return nullptr;
      if (__builtin_expect(late_near_.Has(granule / kNear), 0) &&
          late_.HasAnyOfFew(granule, granules)) {
        return nullptr;
      }
    }
    if (noting_ != 0) notes_of_blocks_.Note(granule, key);
    if (__builtin_expect(unmatched_ != 0, 0)) FoundAgain();
    LookAhead();
    cursor_ = next + 1;
    return box_ + granule * kGranule;
  }
  void* PlaceAsExpected() { return Place(Decode(cursor_)); }

  // A realloc, if it is just what the stream expects: where the plan has the new block, to which
  // the caller copies the old one unless that is where it is; only then, if it may not move. Else
  // null, and nothing has happened.
  [[gnu::hot]] void* ReallocateExpected(const void* pointer, uint64_t size, uint64_t site,
                                        bool may_move);
  // From a block of the box up to its end.
  uint64_t BytesBehind(const void* pointer) const {
    return static_cast<uint64_t>(box_ + box_bytes_ - static_cast<const char*>(pointer));
  }

  // The same in a lane that runs free: whether the block is long enough, and not far too long.
  bool ReallocateFreely(void* pointer, uint64_t size) {
    if (!running_free_ || !IsAGranule(pointer)) return false;
    const uint64_t granules = LateLength(GranuleOf(pointer));
    const uint64_t needed = ShapeGranules(PlainShape(size));
    if (needed > granules || needed <= granules / 2) return false;
    CountApart(pointer);
    return true;
  }

  // Whether a block of that shape may get a place that is kept: else none need be asked for.
  static bool CanBeKept(uint64_t shape) { return shape <= KeptPlaces::kLongestShape; }
  // Allocates beside the stream, in a place that is kept; null: there is none.
  void* AllocateKept(uint64_t shape) {
    if (void* quickly = AllocateKeptQuickly(shape)) return quickly;
    uint32_t granule;
    const bool taken = !IsLookDue() && kept_.Take(kept_.LengthOf(shape), &granule);
    return taken ? Reuse(granule, kept_.LengthOf(shape)) : nullptr;
  }
  // Frees a block of a lane that runs free; false: it is in no open part of it, or not live, and
  // nothing has happened.
  bool FreeFreely(void* pointer);
  // Both where that takes few instructions.
  void* AllocateKeptQuickly(uint64_t shape) {
    if (__builtin_expect(IsLookDue(), 0)) return nullptr;
    const uint32_t granules = kept_.LengthOf(shape);
    uint32_t granule;
    if (char* last = last_.Take(granules)) return CountKept(last, last >= annex_);
    if (__builtin_expect(!kept_.TakeQuickly(granules, &granule), 0)) return nullptr;
    return Reuse(granule, granules);
  }
  bool FreeKeptQuickly(void* pointer) {
    if (last_.Is(pointer)) return last_.PutBack();
    // First, so that few numbers are needed at a time: fewer than there are registers to be had.
    if (last_.IsFree()) {
      if (!kept_.PutQuickly(last_.granule(), last_.granules())) return false;
      late_.Keep(last_.granule(), last_.granules());
    }
    uint64_t granule;
    const uint64_t granules = IsOpen(pointer, &granule) ? late_.ShortLengthAt(granule) : 0;
    if (__builtin_expect(granules == 0, 0)) {
      last_.Clear();
      return false;
    }
    last_.Put(pointer, static_cast<uint32_t>(granule), granules);
    return true;
  }
  // Bytes usable in a planned block that is noted; 0: it is not known here.
  uint64_t UsableNoted(const void* pointer) const {
    const uint64_t granule = GranuleInBox(pointer);
    return noting_ != 0 && granule < box_granules_ ? notes_of_blocks_.UsableAt(granule) : 0;
  }
  // The same in a short block of a lane that runs free.
  uint64_t UsableFreely(const void* pointer) const {
    uint64_t granule;
    return IsOpen(pointer, &granule) ? late_.ShortLengthAt(granule) * kGranule : 0;
  }
  // Whether the lane has left its stream. Changes in Allocate and PlaceAsExpected only.
  bool running_free() const { return running_free_; }
  // Whether AllocateKept may be asked. Becomes false in Allocate only.
  bool gives_kept() const { return running_free_ && rest_ == 0; }

  // Whether a request is to go to the fallback without being looked at.
  bool Rests() {
    if (rest_ == 0 || __atomic_load_n(&remote_, __ATOMIC_RELAXED) != nullptr) return false;
    --rest_;
    ++counters_->unmatched;
    return true;
  }

  // The same for many of the next ones, which then need not ask (LaneCounters::unused). False: for
  // none.
  bool GrantRest() {
    const uint64_t many = rest_ < kRestsAtOnce ? rest_ : kRestsAtOnce;
    rest_ += counters_->unused - many;
    counters_->granted += many - counters_->unused;
    counters_->unused = many;
    return many > 0;
  }

  // Whether an address lies in the lane's box; blocks in the annex are the lane's, too.
  bool Contains(const void* pointer) const {
    return static_cast<uint64_t>(static_cast<const char*>(pointer) - box_) < box_bytes_;
  }

  // The same of the box and the annex.
  bool Owns(const void* pointer) const { return GranuleOf(pointer) < Granules(); }

  // Frees a block, by its owner. A pointer that is no live block's start is counted and ignored:
  // false.
  bool Free(void* pointer) {
    if (__builtin_expect(FreeExpected(pointer), 1)) return true;
    if (running_free_ && FreeFreely(pointer)) return true;
    if (!Contains(pointer)) return FreeInAnnex(pointer);
    return FreeSlowly(GranuleInBox(pointer));
  }

  // The same if the stream expects just that; else false, and nothing has happened. Of any lane.
  // Quickest where no planned block is early and none is noted.
  bool FreeExpected(const void* pointer) {
    const uint32_t* next = cursor_;
    const uint64_t expected = Freed(*next, expected_base_);
    if (__builtin_expect(expected != reinterpret_cast<uint64_t>(pointer), 0)) {
      const uint64_t more = expected - reinterpret_cast<uint64_t>(pointer);
      const uint32_t word = *static_cast<const volatile uint32_t*>(next);  // again: no register
      const uint64_t granule = word & ~kFreeBit;
      if (more == kSomeAreEarly) {
        if (early_.Has(granule)) return false;
      } else {
        if (more != kNoted || IsEarly(granule)) return false;
        notes_of_blocks_.Forget(granule);
      }
    }
    cursor_ = next + 1;
    return true;
  }

  // Frees a block, by any other thread. Lock-free. The block is free once its owner has noticed.
  void FreeRemotely(void* pointer);

  // Takes in what other threads freed.
  void Drain();

  // Bytes usable in a live block. When `pointer` is not a live block's start: 0, or what is usable
  // in some other block. By the owner; a signal handler that interrupts it asks UsableIfQuiet.
  [[gnu::hot]] uint64_t Usable(const void* pointer);
  [[gnu::hot]] uint64_t UsableIfQuiet(const void* pointer) const;
  // The same, or up to the end of the granule, for who copies them: a look at fewer tables.
  [[gnu::hot]] uint64_t BytesToCopy(const void* pointer);

  // The same, by any other thread that has the block's lifetime under control.
  uint64_t UsableRemotely(const void* pointer) const;

  // Whether no page may be given back: while the bytes of a block that was just freed are still
  // wanted.
  void set_keeps_pages(bool keeps) { keeps_pages_ = keeps; }

  // Undoes the Free of a block after which nothing was placed: for a realloc that failed. `bytes`
  // were usable in it.
  void Revive(void* pointer, uint64_t bytes);

  // Pages of the box and the annex that were given back. By the owner, or when there is none.
  uint64_t GivenBytes() const { return given_pages_ * kBoxAlignment; }

  // Whether no block is live. By the owner, or when there is none any more.
  bool Empty();

  // Tells the counters how far the stream has been followed. By any thread; the owner does it by
  // itself at every turn, and when it leaves the stream.
  void Publish() const {
    const uint32_t* here = cursor_.Seen();  // before it is known that this is not the end's
    if (!running_free_.Seen()) {
      __atomic_store_n(&counters_->passed, reinterpret_cast<uint64_t>(here), __ATOMIC_RELAXED);
    }
  }

  Room room() const {
    return {box_,      annex_,      annex_granules_ * kGranule,
            releases_, dear_pages_, freed_base_ == kNowhere,
            held_};
  }
  LaneCounters* counters() const { return counters_; }
  const PlanLane* plan() const { return lane_; }

  // Who holds the lane; managed by Arena.
  int32_t state = 0;
  uint64_t taker = 0;  // path of the thread that took it

 private:
  struct Request {
    uint64_t shape;
    uint64_t site;
  };

  // A free's word taken for a number is less than zero by as much as its offset is below this.
  static constexpr uint64_t kFreedBase = uint64_t{kFreeBit} * kGranule;
  static constexpr uint64_t kNowhere = uint64_t{1} << 62;  // 32 GiB to both sides are no addresses
  static constexpr uint64_t kSomeAreEarly = uint64_t{1} << 61;  // nor this, nor both
  static constexpr uint64_t kNoted = uint64_t{1} << 60;         // nor this, nor the first and this
  static constexpr uint64_t kAnother = 1;                       // of Differs
  static constexpr uint64_t kPageGranules = kBoxAlignment / kGranule;

  struct Slot {
    uint32_t granule;   // where the block begins, relative to the box, / 16
    uint32_t granules;  // its length
  };

  // A pointer into a granule has low bits; rotated, they make a number that no word holds.
  static uint64_t GranulesFrom(const char* begin, const void* pointer) {
    const uint64_t distance = static_cast<const char*>(pointer) - begin;
    return distance >> 4 | distance << 60;
  }
  // All ones or none: whether something is in the annex cannot be foretold, and what a load from a
  // place that depends on it would take is what one call would wait for the one before.
  static uint64_t Mask(uint64_t in_annex) { return -in_annex; }
  // What follows is not computed together with what came before: then each address and each term
  // of a sum is a part of the instruction that needs it.
  template <typename Number>
  static void KeepApart(Number& number) {
    asm("" : "+r"(number));
  }
  uint64_t GranuleInBox(const void* pointer) const { return GranulesFrom(box_, pointer); }
  // The address that a word frees. Of any other word it is one some 32 to 64 GiB behind the box,
  // or, as with all words of a crowded lane, one that no pointer has.
  uint64_t FreedBy(uint32_t word) const { return Freed(word, freed_base_); }
  static uint64_t Freed(uint32_t word, uint64_t base) {
    return base + static_cast<uint64_t>(int64_t{static_cast<int32_t>(word)}) * kGranule;
  }
  // Any thread may come with a wrong pointer.
  void CountInvalidFree() { __atomic_fetch_add(&counters_->invalid_frees, 1, __ATOMIC_RELAXED); }
  void CountApart(const void* pointer) {
    ++counters_->apart;
    counters_->apart_addresses += reinterpret_cast<uint64_t>(pointer);
  }
  void CountSkipped(const uint32_t* word, uint64_t granule) {
    ++counters_->skipped;
    counters_->skipped_hash += MixAddress(static_cast<uint64_t>(word - first_word_),
                                          reinterpret_cast<uint64_t>(box_ + granule * kGranule));
  }
  // What the words ahead name will soon be used, by the program or by us: it is on its way into the
  // caches by then. Of two words: where allocations and frees take turns there is one of each. What
  // names nothing leads nowhere. (Inline: gcc takes a function that only prefetches for one that
  // does nothing.)
  __attribute__((always_inline)) void LookAhead() const {
    const uint32_t* ahead = cursor_ + kWordsAhead;
    if ((fetched_ & kFetchBlocks) != 0) {
      __builtin_prefetch(box_ + (ahead[-1] & offset_mask_) * kGranule);
      __builtin_prefetch(box_ + (ahead[0] & offset_mask_) * kGranule);
    }
    if ((fetched_ & kFetchKeys) != 0) {
      __builtin_prefetch(&keys_[(ahead[-1] & ~kFreeBit) >> offset_bits_]);
      __builtin_prefetch(&keys_[(ahead[0] & ~kFreeBit) >> offset_bits_]);
    }
  }
  void FetchRareKeys();
  void* AllocateFreely(uint64_t shape, uint64_t site);
  void* PlaceInstead(const Word& expected, const Request& request);
  bool MissesTooMuch(uint64_t words);
  void StartSlots();
  void Judge();
  void RunFree();
  void FreePlace(uint64_t granule, uint64_t granules);
  bool FreeInAnnex(void* pointer);
  // Of a block in box or annex; for other addresses it may be any number.
  uint64_t GranuleOf(const void* pointer) const {
    const char* at = static_cast<const char*>(pointer);
    return Contains(pointer) ? static_cast<uint64_t>(at - box_) / kGranule
                             : box_granules_ + static_cast<uint64_t>(at - annex_) / kGranule;
  }
  uint64_t Granules() const { return box_granules_ + annex_granules_; }
  bool IsSmall() const { return box_bytes_ < 2 * kLeastAnnex; }
  // Whether it is the address of one of the lane's granules.
  bool IsAGranule(const void* pointer) const {
    return reinterpret_cast<uint64_t>(pointer) % kGranule == 0 && GranuleOf(pointer) < Granules();
  }
  // Whether it is not reserved for certain kinds of request.
  bool IsOpen(uint64_t granule) const {
    return granule < open_granules_ || granule >= box_granules_;
  }
  // The same of an address; false, too, for addresses that none of the lane's granules has. Whether
  // it is one of the box or of the annex, which lies behind it, cannot be foretold: no branch.
  bool IsOpen(const void* pointer, uint64_t* granule) const {
    const uint64_t mask = Mask(static_cast<const char*>(pointer) >= annex_);
    *granule = GranulesFrom(box_here_ + (mask & to_annex_), pointer);
    return *granule < open_granules_ + (mask & to_all_);
  }
  // Keeps the place of a block that is freed, for the next request of its length; false: it does
  // not.
  bool Keep(uint64_t granule, uint64_t granules) {
    if (!IsOpen(granule) || (!running_free_ && granule < open_granules_)) return false;
    if (!PutAway(granule, granules)) return false;
    if (!running_free_) NoteFreed(granule);
    return true;
  }
  bool PutAway(uint64_t granule, uint64_t granules) {
    if (!kept_.Put(static_cast<uint32_t>(granule), granules)) return false;
    late_.Keep(granule, granules);
    return true;
  }
  // Whether the box is to be looked into, and in how many kept places of the annex it will be.
  bool IsLookDue() const { return until_look_ == 0; }
  void LookIn(uint32_t requests) { until_look_ = requests; }
  // A kept place becomes a block; no look must be due.
  void* Reuse(uint32_t granule, uint64_t granules) {
    late_.Reuse(granule, granules);
    uint64_t in_annex = granule >= box_granules_ ? 1 : 0;
    KeepApart(in_annex);
    return CountKept(AddressOf(granule, in_annex), in_annex);
  }
  void* CountKept(char* pointer, uint64_t in_annex) {
    KeepApart(in_annex);  // else it is computed for each use
    ++counters_->kept[in_annex];
    until_look_ -= static_cast<uint32_t>(in_annex);
    counters_->apart_addresses += reinterpret_cast<uint64_t>(pointer);
    if (pointer == nullptr) __builtin_unreachable();
    return pointer;
  }
  void SettleLast();
  void ReleaseKept();
  void KeepMore(const PlanRing* ring, uint64_t shape, uint64_t granules);
  void Carve(uint64_t shape, const Slot& slot);
  uint64_t KeepFree(uint64_t granule, uint64_t granules, uint64_t count);
  bool TakeFromBox(const PlanRing* ring, const Request& request, Slot* slot, bool* planned);
  bool TakeFromRing(const PlanRing* ring, Slot* slot);
  bool Earn();
  void* Improvise(uint64_t shape);
  void* Occupy(uint64_t shape, const Slot& slot);
  void* PlaceLong(uint64_t shape);
  void* PlaceShort(const Request& request);
  LongGaps::Range OpenPart(uint64_t granule) const;
  bool KeptGivesWay();
  void NoteLongGaps();
  bool TakeLong(uint64_t shape, Slot* slot);
  bool TakeLongGap(uint64_t shape, Slot* slot);
  static bool IsLong(uint64_t shape) { return ShapeGranules(shape) >= LongGaps::kLeast; }
  void NoteAnnexUse(uint64_t end);
  void Taken(uint64_t granules) {
    taken_ += granules;
    if (taken_ > most_taken_) most_taken_ = taken_;
  }
  bool HasFallen() const { return taken_ + kFall + most_taken_ / kFallShare <= most_taken_; }
  bool IsToGiveBack() const { return until_idle_ == 0 || held_->Asks() != answered_; }
  void LookForIdle();
  void GiveIdle(uint64_t fewest, uint64_t most);
  uint64_t GiveIdleOf(LongGaps::Range range, uint64_t fewest, uint64_t* most);
  void GiveFallen();
  bool IsIdle(uint64_t page) const;
  uint64_t Affordable() const;
  uint64_t FewestGiven() const { return dear_pages_ ? kLongRun : kFewestGiven; }
  void Give(uint64_t begin, uint64_t end);
  void DropTable(uint64_t begin, uint64_t end) const;
  void TakeAgain(uint64_t granule, uint64_t granules);
  bool TakeFromAnnex(uint64_t shape, Slot* slot);
  void* PlaceUnlooked(uint64_t shape);
  bool TakeFresh(uint64_t shape, Slot* slot);
  void TakeOfAnnex(uint64_t granule, uint64_t granules, Slot* slot);
  // Behind what was used of the annex.
  uint64_t UsedEnd() const { return box_granules_ + counters_->annex_bytes / kGranule; }
  bool TakeFromUsedAnnex(uint64_t shape, Slot* slot);
  bool TakeGap(uint64_t shape, Slot* slot);
  bool TakeAnyGap(uint64_t shape, Slot* slot);
  // The box is as aligned as what the plan has in it, which may be less than a request asks for.
  static bool HasAlignment(const char* address, uint64_t shape) {
    return reinterpret_cast<uint64_t>(address) % (ShapeStep(shape) * kGranule) == 0;
  }
  char* AddressOf(uint64_t granule) const {
    return AddressOf(granule, granule >= box_granules_ ? 1 : 0);
  }
  char* AddressOf(uint64_t granule, uint64_t in_annex) const {
    return box_here_ + granule * kGranule + (Mask(in_annex) & to_annex_);
  }
  [[gnu::hot]] bool FreeSlowly(uint64_t granule);
  bool FreeLate(uint64_t granule);
  [[gnu::hot]] bool FreeBesideTheStream(uint64_t granule);
  [[gnu::hot]] void Settle();
  [[gnu::hot]] void PassTurn();
  [[gnu::hot]] void Release(const Word& idle);
  Word Decode(const uint32_t* at) const { return DecodeWord(at, offset_bits_); }
  const uint32_t* NextAllocation(const uint32_t* from, const uint32_t* limit) const;
  void PassUntil(const uint32_t* target);
  [[gnu::hot]] void Pass(const Word& word);
  [[gnu::hot]] void* Place(const Word& word);
  // Whether a late block lies where the plan has this allocation.
  bool IsTaken(const Word& word) const {
    const uint64_t granules = live_keys_.Granules(word.key);
    return late_.HasAny(word.granule, word.granule + granules);
  }
  const uint32_t* BehindTheSameSites(uint64_t count) const;
  void Replaced(const uint32_t* behind);
  void FoundAgain() {
    unmatched_ = 0;
    next_look_ = kConfirm;
    reordered_ = false;
  }
  void RememberSkipped(const uint32_t* allocation) {
    const LiveKey key = KeyAt(allocation);
    skipped_[skips_++ % kSkipped] = {key.shape, key.site};
  }
  bool WasSkipped(const Request& request) const;
  const uint32_t* FindAgain() const;
  [[gnu::hot, gnu::noinline]] LiveKey KeyAt(const uint32_t* allocation) const;
  bool Matches(const uint32_t* allocation, const Request& request) const;
  [[gnu::hot]] std::optional<PlanBlock> PlannedAt(uint64_t granule) const;
  [[gnu::hot]] bool IsPlannedLive(uint64_t granule);
  // Whether the block that begins there is planned to live and does, because it is noted.
  bool IsNoted(uint64_t granule) const { return noting_ != 0 && notes_of_blocks_.Has(granule); }
  bool IsEarly(uint64_t granule) const {
    return early_count_ != 0 && !IsNoted(granule) && early_.Has(granule);
  }
  // Whether a late block of the box begins there: none does where a planned block lives.
  bool IsLate(uint64_t granule) const {
    return care_ != calm_ && !IsNoted(granule) && late_.BeginsAt(granule);
  }
  void* PlaceThere(const Word& word) {
    if (noting_ != 0) notes_of_blocks_.Note(word.granule, word.key);
    return box_ + word.granule * kGranule;
  }
  [[gnu::hot]] std::optional<uint32_t> LatestKey(uint64_t granule) const;
  // Of the block that is planned live there.
  uint64_t PlannedGranules(uint64_t granule) const {
    const uint64_t noted = noting_ != 0 ? notes_of_blocks_.UsableAt(granule) : 0;
    if (noted != 0) return (noted + kGranule - 1) / kGranule;
    const std::optional<uint32_t> latest = LatestKey(granule);
    return live_keys_.Granules(latest ? *latest : PlannedAt(granule)->key);
  }
  uint64_t LookedAt() const { return __atomic_load_n(&looked_at_, __ATOMIC_RELAXED); }
  [[gnu::hot]] void LookElsewhere(uint64_t sample) const;
  [[gnu::hot]] void DropAround(const void* begin, const void* end, const void* table) const;
  void SetCare(uint32_t care) {
    care_ = care;
    const uint64_t frames = (stack_base_ - sizeof(uint64_t)) << kFrameShift;
    frames_ = care != 0 ? frames - kWithCare : frames;
  }
  void SetEarlyCount(uint32_t count) {
    early_count_ = count;
    expected_base_ = freed_base_ + (noting_ != 0 ? kNoted : count != 0 ? kSomeAreEarly : 0);
  }
  void SetNoting(bool noting);
  [[gnu::hot]] uint64_t Asked(const void* pointer, bool exactly);
  [[gnu::hot, gnu::noinline]] uint64_t Look(const void* pointer, bool exactly) const;
  [[gnu::hot]] void ConsiderNoting();
  [[gnu::noinline]] void BeginNoting();
  // The cursor goes on to `next`, past the planned free of the block at `granule`. Release: who
  // finds no note of a block finds that it has become late.
  void PassFree(uint64_t granule, const uint32_t* next) {
    if (noting_ != 0) {
      __atomic_thread_fence(__ATOMIC_RELEASE);
      notes_of_blocks_.Forget(granule);
    }
    cursor_ = next;
  }
  void AddEarly(uint64_t granule);
  void FreeEarly(uint64_t granule);
  [[gnu::hot]] bool RemoveEarly(uint64_t granule);
  void AddLate(uint64_t granule, uint64_t granules);
  void RemoveLate(uint64_t granule, uint64_t granules);
  void NoteNear(uint64_t granule, uint64_t granules);
  void BeginLateChange();
  void EndLateChange();
  // Of the late block that begins there, in granules; 0: none does.
  uint64_t LateLength(uint64_t granule) const {
    return last_.IsFreeAt(granule) ? 0 : late_.LengthAt(granule, Granules());
  }
  void NoteDivergence(uint64_t shape, uint64_t site);
  void NoteFreed(uint64_t granule);
  void NoteBlocked(uint64_t shape, uint64_t site, uint64_t granule, uint64_t end, uint32_t times);
  uint64_t LateBegin(uint64_t granule) const;
  void* PlaceElsewhere(const Word& word, uint32_t birth);
  void NoteMiss(uint64_t shape, uint64_t site, const PlanRing* ring, const Slot& latest);

  // Hot.
  Owned<const uint32_t*> cursor_;
  const LiveKey* keys_;
  uint64_t frames_;  // where the stack begins, as a term of a site; - kWithCare: care_ is not 0
  char* box_;
  uint64_t expected_base_;  // freed_base_; + kNoted: blocks are; or + kSomeAreEarly
  uint32_t offset_bits_;
  uint32_t offset_mask_;
  uint64_t box_bytes_;
  uint32_t care_;  // late blocks in the box, which can be in the way of a planned one; + calm_
  uint32_t early_count_;
  uint64_t freed_base_;

  // Hot where care is taken.
  const uint8_t* key_granules_;
  uint32_t noting_;       // 1: planned blocks are noted
  uint32_t calm_;         // noting_, + 1 in a lane that looks ahead
  uint32_t fetched_;      // what it looks ahead for: kFetchBlocks, kFetchKeys
  uint64_t unmatched_;    // requests, in a row
  GranuleSet late_near_;  // stretches of kNear granules of the box: a short block may meet one
  GranuleSet early_;      // where early blocks begin
  BlockNotes notes_of_blocks_;

  // Hot in a lane that runs free: two cache lines, and of what is kept a few.
  alignas(64) LaneCounters* counters_;
  LastPlace last_;       // in a lane that runs free; marked as a block still when it is free
  uint32_t until_look_;  // kept places of the annex to be taken until the box is looked into
  BlockSet late_;        // late blocks
  char* annex_;
  char* box_here_;  // box_
  uint64_t box_granules_;
  uint64_t open_granules_;  // of the box, in which blocks may be improvised
  uint64_t to_annex_;       // from where an address would be if the annex came behind the box
  uint64_t to_all_;         // granules behind the open ones of the box
  KeptPlaces kept_;
  uint64_t annex_granules_;  // counted on from those of the box
  uint64_t rest_;            // requests for which nothing is looked for
  Owned<bool> running_free_;

  // Cold.
  uint64_t stack_base_;
  uint32_t late_count_;  // kept places are late, too
  const PlanHeader* plan_;
  const PlanLane* lane_;
  const uint32_t* first_word_;
  const uint32_t* end_word_;  // the kEnd
  const PlanBlock* placements_;
  LiveKeys live_keys_;
  const PlanSample* samples_;  // a copy of the lane's: they are looked at together
  const PlanRing* rings_;
  const uint32_t* all_slots_;  // of the plan
  Request history_[kConfirm];  // the latest unmatched requests, newest at unmatched_ % kConfirm
  Request skipped_[kSkipped];  // the last planned allocations that were passed by
  uint32_t skips_;             // so far
  bool reordered_;             // one of the unmatched requests is of such a key
  const uint32_t* behind_replaced_;  // the word behind the last one whose turn another request took
  const uint32_t* missed_at_;        // the latest miss
  uint64_t missed_;                  // words that are to be followed for what was missed
  uint64_t awaited_;                 // late blocks, about, that another thread is to free
  uint64_t awaited_bytes_;           // of the annex, for planned blocks placed there meanwhile
  mutable uint64_t looked_at_;  // atomic: the sample that ended the latest look at the placements
  const uint32_t* rare_until_;  // up to there the keys of far words are on their way
  uint32_t turns_;              // passed
  int64_t asked_;               // by the owner how long a block is
  int64_t far_frees_;           // that were looked for among the placements
  bool releases_;
  bool dear_pages_;
  bool keeps_pages_;
  int32_t effort_;        // that may be spent on looking for places
  uint64_t earned_;       // for so many allocations apart
  uint32_t window_;       // requests since it began
  uint32_t spent_;        // of these, how many found no budget
  uint32_t failed_;       // and how many no place
  uint32_t misses_;       // that were noted
  uint32_t rests_;        // so far
  void* planned_memory_;  // for a set of the blocks that are planned live
  void* slot_memory_;
  SlotIndex slots_;        // once running free
  uint32_t look_;          // after how many the latest look was
  uint64_t gap_search_;    // where the last search for a gap of the box ended
  uint64_t next_look_;     // value of unmatched_ at which the next look ahead is due
  uint64_t annex_search_;  // where the last search for a gap of the annex ended
  uint64_t annex_lacks_;   // no gap of the annex has so many granules
  LongGaps long_gaps_;     // of the annex, and once running free of the box
  HeldMemory* held_;       // of all lanes
  uint32_t answered_;      // how often it had been asked when the lane last gave pages back
  uint32_t until_idle_;    // requests until pages to give back are looked for
  uint64_t taken_;         // granules of late blocks and kept places
  uint64_t most_taken_;    // since pages were given back because it had become less
  uint64_t given_pages_;   // that are not used again so far
  GranuleSet given_;       // these, counted as granules are
  LaneNotes notes_;

  // Touched by other threads.
  alignas(64) uint32_t late_changes_;  // atomic: odd while a block becomes late or stops being so
  alignas(64) void* remote_;  // atomic: list of blocks freed by others, linked through the blocks
  void* recent_[kRecent];     // atomic, no more than hints: the last ones
  uint64_t recents_;          // atomic: how many there were, about
};

}  // namespace reprise::replay

#endif  // REPRISE_REPLAY_ARENA_LANE_H_

// Requests that a lane's stream does not expect: where in the stream the program is, and when it is
// no longer worth looking for.
//
// A request from the expected call site that only has another length takes the expected one's turn.
// If what comes next is what the stream expects behind some unmatched requests of the same call
// sites, these differed in their lengths only. Otherwise the lane looks ahead for four allocations
// in a row that match the latest four requests: fewer match by chance too often.
//
// In a loop the body's beginning and what comes behind the loop are looked at, too.
//
// A miss costs as much as 16 matched events earn in runs of more than 8; a request of another
// length costs as much as one. A lane that has spent 128 misses more than it had earned is to leave
// its plan; in a loop that is repeated, more than two passes ask for. A program's only lane saves
// up to 8,192 misses: so long may the program do something in between that the recording did not.
// Where there are others, what is free in the box is of more use to them.
//
// Thread-safety: belongs to one thread. Hook-safe.
#ifndef REPRISE_REPLAY_ARENA_RESYNC_H_
#define REPRISE_REPLAY_ARENA_RESYNC_H_

#include <stdint.h>

#include "replay/arena/plan_stream.h"

namespace reprise::replay {

// Where the stream may go on from a word of a loop.
struct LoopPlaces {
  const uint32_t* first = nullptr;   // of the body; null: it is in no loop
  const uint32_t* behind = nullptr;  // the loop
};

class Resync {
 public:
  // What misses cost, in matched events.
  static constexpr uint64_t kMiss = 16;
  static constexpr uint64_t kOtherLength = 1;

  // `stream` outlives the object. `alone`: it is the plan's only lane.
  void Start(const PlanStream* stream, bool alone) {
    stream_ = stream;
    missed_at_ = stuck_at_ = stream->first;
    most_debt_ = kMostDebt;
    most_saved_ = alone ? kMostSaved : 0;
    Found();
  }

  // A request has come while the cursor stands there: if it moved since the last one that did not
  // match, those are forgotten.
  void ComeTo(const uint32_t* cursor) {
    if (cursor != stuck_at_) Found();
    stuck_at_ = cursor;
  }
  // The cursor goes back by so many words, to the beginning of a body with so many allocations.
  void WentBack(uint64_t words, uint64_t blocks) {
    passed_before_ += words;
    const auto two_passes = static_cast<int64_t>(2 * kMiss * blocks);
    most_debt_ = two_passes > kMostDebt ? two_passes : kMostDebt;
  }
  void LeftLoop() { most_debt_ = kMostDebt; }
  // The program is where the cursor is.
  void Found() {
    unmatched_ = spent_ = 0;
    next_look_ = kConfirm;
  }
  uint64_t unmatched() const { return unmatched_; }

  // Whether a request of another length may take the turn of the allocation at the cursor. One
  // guess is to be confirmed before the next.
  bool MayReplace(const uint32_t* cursor, const Request& request) const {
    return unmatched_ == 0 && cursor != behind_replaced_ && !WasSkipped(request);
  }
  void Replaced(const uint32_t* behind) { behind_replaced_ = behind; }

  // Where the stream goes on if the unmatched requests differed from it in their lengths only; null
  // if they did not.
  const uint32_t* BehindTheSameSites(const uint32_t* cursor) const;
  // They did: most of what they cost is given back.
  void Forgive() { Earn(spent_ - unmatched_ * kOtherLength); }

  // A miss at the cursor that costs so much; true: the lane is to leave its plan.
  bool MissesTooMuch(const uint32_t* cursor, uint64_t cost);

  // Another request that did not match. Where the latest of them stand in a row further on: the
  // last one's word; null: nowhere near, or it is not time to look.
  const uint32_t* Miss(const uint32_t* cursor, const Request& request, const LoopPlaces& loop);

  // A planned allocation was passed that the program did not ask for.
  void Skipped(const Request& planned) { skipped_[skips_++ % kSkipped] = planned; }
  bool WasSkipped(const Request& request) const {
    for (const Request& skipped : skipped_) {
      if (skipped.shape == request.shape && skipped.site == request.site) return true;
    }
    return false;
  }

 private:
  static constexpr uint32_t kConfirm = 4;      // requests that must match before a jump
  static constexpr uint64_t kLookAhead = 256;  // words looked at per unmatched request
  static constexpr uint64_t kMostLookAhead = 1 << 17;
  static constexpr uint64_t kAWhile = 8;
  static constexpr int64_t kMostDebt = 128 * kMiss;
  static constexpr int64_t kMostSaved = 8192 * kMiss;
  static constexpr uint32_t kSkipped = 8;  // planned allocations that are remembered

  void Earn(uint64_t events) {
    balance_ += static_cast<int64_t>(events);
    if (balance_ > most_saved_) balance_ = most_saved_;
  }
  uint64_t Window() const;
  const uint32_t* FindAgain(const uint32_t* from, const uint32_t* limit) const;

  const PlanStream* stream_;
  const uint32_t* stuck_at_;         // the cursor at the latest unmatched request
  uint64_t unmatched_;               // requests in a row
  uint64_t next_look_;               // value of unmatched_ at which to look ahead
  Request history_[kConfirm];        // the latest, newest at unmatched_ % kConfirm
  Request skipped_[kSkipped];        // planned allocations passed last
  uint32_t skips_;                   // so far
  const uint32_t* behind_replaced_;  // the word behind the last turn that another request took
  const uint32_t* missed_at_;        // the latest miss
  uint64_t passed_before_;           // words that the cursor went back by since then
  int64_t most_debt_;
  int64_t balance_;  // of what was earned and spent
  int64_t most_saved_;
  uint64_t spent_;  // on these unmatched requests
};

}  // namespace reprise::replay

#endif  // REPRISE_REPLAY_ARENA_RESYNC_H_

// Places of short blocks that were freed a moment ago, by length: what a lane gives out first when
// it does not follow its stream (lane.h). The caller sees to it that nobody else gets them.
//
// Hook-safe. Belongs to one thread. Memory is the caller's, zeroed.
#ifndef REPRISE_REPLAY_ARENA_KEPT_PLACES_H_
#define REPRISE_REPLAY_ARENA_KEPT_PLACES_H_

#include <stdint.h>

#include "replay/plan_format.h"

namespace reprise::replay {

class KeptPlaces {
 public:
  // Keeps a place of so many granules; false: it is too long, or there are enough of that length.
  bool Put(uint32_t granule, uint64_t granules) {
    if (granules >= kLengths || stacks_[granules].count == kDepth) return false;
    Stack& stack = stacks_[granules];
    stack.granule[stack.count++] = granule;
    granules_ += granules;
    return true;
  }

  // The latest place for requests of this shape; false: there is none.
  bool Take(uint64_t shape, uint32_t* granule) {
    if (shape >= kShapes) return false;
    const uint64_t granules = ShapeGranules(shape) + longer_[shape];
    Stack& stack = stacks_[granules];
    if (stack.count == 0) return false;
    *granule = stack.granule[--stack.count];
    granules_ -= granules;
    return true;
  }

  // Blocks of this shape have been seen to have so many granules: the recorded program was told of
  // more usable bytes than it had asked for.
  void NoteLength(uint64_t shape, uint64_t granules) {
    if (shape < kShapes && granules < kLengths) {
      longer_[shape] = static_cast<uint8_t>(granules - ShapeGranules(shape));
    }
  }

  // No longer keeps a place, which it does.
  void Remove(uint32_t granule, uint64_t granules) {
    Stack& stack = stacks_[granules];
    uint32_t at = 0;
    while (stack.granule[at] != granule) ++at;
    stack.granule[at] = stack.granule[--stack.count];
    granules_ -= granules;
  }

  // Forgets all places, and calls visit(granule) for each of them.
  template <typename Visit>
  void Clear(Visit visit) {
    for (Stack& stack : stacks_) {
      while (stack.count > 0) visit(stack.granule[--stack.count]);
    }
    granules_ = 0;
  }

  // Of all places.
  uint64_t granules() const { return granules_; }

 private:
  static constexpr uint32_t kLengths = 130;              // in granules
  static constexpr uint64_t kShapes = 2 * kLengths - 1;  // units of 8 bytes; aligned ones are above
  static constexpr uint32_t kDepth = 31;

  struct Stack {
    uint32_t count;
    uint32_t granule[kDepth];
  };

  Stack stacks_[kLengths];
  uint8_t longer_[kShapes];  // granules that a block has more than its shape needs
  uint64_t granules_;
};

}  // namespace reprise::replay

#endif  // REPRISE_REPLAY_ARENA_KEPT_PLACES_H_

// Places of short blocks that were freed a moment ago, by length: what a lane gives out first when
// it does not follow its stream (lane.h). The caller sees to it that nobody else gets them.
//
// Places of the box and of the annex stand in one stack, those of the annex below, so that a look
// at one number tells whether there is any.
//
// Hook-safe. Belongs to one thread. Memory is the caller's, zeroed: little of it is touched, unless
// many blocks of one length are freed in a row.
#ifndef REPRISE_REPLAY_ARENA_KEPT_PLACES_H_
#define REPRISE_REPLAY_ARENA_KEPT_PLACES_H_

#include <stdint.h>

#include "replay/plan_format.h"

namespace reprise::replay {

class KeptPlaces {
 public:
  // Bytes of zeroed memory beside the object itself, for places among so many granules.
  static constexpr uint64_t MemoryFor(uint64_t granules) {
    return kLengths * DeepFor(granules) * sizeof(uint32_t);
  }

  void Attach(void* zeroed_memory, uint64_t granules) {
    deep_ = static_cast<uint32_t*>(zeroed_memory);
    deep_each_ = DeepFor(granules);
  }

  // Keeps a place of so many granules; false: it is too long, or there are enough of that length.
  bool Put(uint32_t granule, uint64_t granules, bool in_annex) {
    if (granules >= kLengths) return false;
    Stack& stack = stacks_[granules];
    const uint32_t count = stack.count;
    if (__builtin_expect(count >= kTop, 0) && count == kTop + deep_each_) return false;
    stack.count = count + 1;
    uint32_t& top = At(granules, count);
    if (__builtin_expect(in_annex, 0)) {
      uint32_t& lowest = At(granules, stack.of_annex++);
      top = lowest;
      lowest = granule;
    } else {
      top = granule;
    }
    return true;
  }

  // The latest place of the box for requests of this shape; false: there is none.
  bool Take(uint64_t shape, uint32_t* granule) {
    if (shape >= kShapes) return false;
    const uint64_t granules = length_of_[shape];
    Stack& stack = stacks_[granules];
    if (stack.count == stack.of_annex) return false;
    *granule = At(granules, --stack.count);
    return true;
  }

  // A place of the annex; false: there is none, or there is one of the box.
  bool TakeFromAnnex(uint64_t shape, uint32_t* granule) {
    if (shape >= kShapes) return false;
    const uint64_t granules = length_of_[shape];
    Stack& stack = stacks_[granules];
    if (stack.count == 0 || stack.count != stack.of_annex) return false;
    *granule = At(granules, stack.of_annex = --stack.count);
    return true;
  }

  // Blocks of this shape have been seen to have so many granules, more perhaps than the shape
  // needs: the recorded program was told of more usable bytes than it had asked for. Until that is
  // known there are no places for them.
  void NoteLength(uint64_t shape, uint64_t granules) {
    if (shape < kShapes && granules < kLengths) length_of_[shape] = static_cast<uint8_t>(granules);
  }

  // No longer keeps a place, which it does.
  void Remove(uint32_t granule, uint64_t granules) {
    uint32_t at = 0;
    while (At(granules, at) != granule) ++at;
    Stack& stack = stacks_[granules];
    if (at < stack.of_annex) {
      At(granules, at) = At(granules, --stack.of_annex);
      at = stack.of_annex;
    }
    At(granules, at) = At(granules, --stack.count);
  }

  // Forgets all places, and calls visit(granule, granules) for each of them.
  template <typename Visit>
  void Clear(Visit visit) {
    for (uint32_t length = 0; length < kLengths; ++length) {
      Stack& stack = stacks_[length];
      while (stack.count > 0) visit(At(length, --stack.count), length);
      stack.of_annex = 0;
    }
  }

  // Of all places. Not kept up to date: they are asked for when nothing else helps.
  uint64_t Granules() const {
    uint64_t sum = 0;
    for (uint32_t length = 0; length < kLengths; ++length) {
      sum += uint64_t{stacks_[length].count} * length;
    }
    return sum;
  }
  uint64_t Count() const {
    uint64_t sum = 0;
    for (const Stack& stack : stacks_) sum += stack.count;
    return sum;
  }

 private:
  static constexpr uint32_t kLengths = 130;              // in granules
  static constexpr uint64_t kShapes = 2 * kLengths - 1;  // units of 8 bytes; aligned ones are above
  static constexpr uint32_t kTop = 30;
  static constexpr uint64_t kMostDeep = 4064;
  static constexpr uint64_t kDeepShare = 64;  // granules per place

  // The bottom of a stack, which is all that most of them ever need.
  struct Stack {
    uint32_t count;
    uint32_t of_annex;  // of these, the lowest
    uint32_t granule[kTop];
  };

  static constexpr uint64_t DeepFor(uint64_t granules) {
    return granules < kMostDeep * kDeepShare ? granules / kDeepShare : kMostDeep;
  }
  uint32_t& At(uint64_t length, uint32_t index) {
    return __builtin_expect(index < kTop, 1) ? stacks_[length].granule[index]
                                             : deep_[length * deep_each_ + index - kTop];
  }

  Stack stacks_[kLengths];
  uint32_t* deep_;  // kLengths times deep_each_: what is above
  uint64_t deep_each_;
  uint8_t length_of_[kShapes];  // in granules; 0: not known, and no place has that
};

}  // namespace reprise::replay

#endif  // REPRISE_REPLAY_ARENA_KEPT_PLACES_H_

// Room for a block where an address space has enough of it, but in pieces.
#ifndef REPRISE_PLANNER_MAKE_ROOM_H_
#define REPRISE_PLANNER_MAKE_ROOM_H_

#include <cstdint>
#include <vector>

#include "planner/free_blocks.h"

namespace reprise::planner {

// A plan is made before the program runs, so that a block may be moved for the whole of its life:
// to where it has been free ever since the block was born. Young blocks find such places. A few of
// them are moved away from the side of a free block, so that it becomes as large as is needed;
// whoever finds no place free may get one in the same way.
class RoomMaker {
 public:
  // Where a block goes; `element` is its index in elements(), kTarget that for which room is made.
  struct Move {
    uint32_t element;
    int64_t address;
  };
  static constexpr uint32_t kTarget = ~uint32_t{0};

  explicit RoomMaker(std::vector<FreeBlocks::Element> elements);

  // Room for `size` units at the instant of the elements. Every address is free of all others when
  // all that move are gone, and so has been since the mover was born. Empty: there is none.
  std::vector<Move> Make(int64_t size);

  const std::vector<FreeBlocks::Element>& elements() const { return elements_; }

 private:
  // The elements [first, last], the taken ones among which move.
  struct Window {
    uint32_t first;
    uint32_t last;
    int64_t cost;
  };

  bool Place(uint32_t element, int64_t size, uint32_t since, int moves_before);
  bool PlaceInFree(uint32_t element, int64_t size, uint32_t since);
  bool PlaceInWindow(const Window& window, uint32_t element, int moves_before);
  std::vector<Window> Windows(int64_t size, uint32_t since) const;
  bool Usable(uint32_t element, uint32_t since) const {
    return !claimed_[element] && elements_[element].note.since <= since &&
           elements_[element].note.since != FreeBlocks::Note::kNever;
  }

  std::vector<FreeBlocks::Element> elements_;
  std::vector<uint32_t> free_;    // by size, then address
  std::vector<bool> claimed_;     // by somebody who moves there or away
  std::vector<uint32_t> claims_;  // in their order
  std::vector<Move> moves_;
  int longest_ = 0;   // chain of moves
  int searches_ = 0;  // for windows, left
};

}  // namespace reprise::planner

#endif  // REPRISE_PLANNER_MAKE_ROOM_H_

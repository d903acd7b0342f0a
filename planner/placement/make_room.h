// Room for a block where an address space has enough of it, but in pieces.
#ifndef REPRISE_PLANNER_PLACEMENT_MAKE_ROOM_H_
#define REPRISE_PLANNER_PLACEMENT_MAKE_ROOM_H_

#include <cstdint>
#include <vector>

#include "planner/placement/free_blocks.h"

namespace reprise::planner {

// Where somebody goes: a block, by its index in the elements of a space, or who needs the room.
struct Move {
  static constexpr uint32_t kTarget = ~uint32_t{0};

  uint32_t element;
  int64_t address;
};

// A plan is made before the program runs, so a block may be moved for the whole of its life: to
// where it has been free ever since the block was born. Young blocks find such places. A few that
// lie together with free blocks are moved away, so that `size` units become free in one piece.
// Empty when there is no such way; otherwise the target's move is the first. The moves are for the
// instant of the elements, when all that move have been freed.
std::vector<Move> MakeRoom(const std::vector<FreeBlocks::Element>& elements, int64_t size);

}  // namespace reprise::planner

#endif  // REPRISE_PLANNER_PLACEMENT_MAKE_ROOM_H_

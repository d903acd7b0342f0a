// Room for a block in an address space that is all but full: what MakeRoom does not find.
#ifndef REPRISE_PLANNER_PLACEMENT_RESHUFFLE_H_
#define REPRISE_PLANNER_PLACEMENT_RESHUFFLE_H_

#include <cstddef>
#include <cstdint>
#include <vector>

#include "planner/core/random.h"
#include "planner/placement/free_blocks.h"
#include "planner/placement/make_room.h"

namespace reprise::planner {

// A block that needs room takes the place of others, and those that of others again, until all lie
// where nobody has been since they were born: the ejections of EjectionSearch, but only among what
// lives at one instant of a sweep. What has left stays where it was, and what comes later does not
// matter yet. Not complete.
class Reshuffle {
 public:
  // A sweep begins: nobody has left yet. Addresses are told apart by up to `cells` cells of
  // [0, addresses). `work` bounds what is done in the whole sweep, in steps from block to block:
  // searches, and noting who left where. When it is used up nothing is found any more.
  void Begin(int64_t addresses, size_t cells, int64_t work);

  // Who lay at [address, address + size) for good left at `now`.
  void Left(int64_t address, int64_t size, uint32_t now);

  // Makes room for `size` units within [0, capacity) for a block that is born at `now`. All moves,
  // as MakeRoom states them; empty when none were found.
  std::vector<Move> Run(const std::vector<FreeBlocks::Element>& elements, int64_t size,
                        uint32_t now, int64_t capacity);

 private:
  // Addresses that were left at the same time.
  struct Stretch {
    int64_t lower;
    int64_t upper;
    uint32_t left;
  };
  // A block that lies somewhere, now.
  struct Lying {
    int64_t address;
    int64_t end;
    uint32_t mover;
    float weight;
  };
  // One that may move: an element, or, behind them all, who needs the room.
  struct Mover {
    int64_t size = 0;
    int64_t home = -1;
    int64_t address = -1;  // -1: in the pool
    uint32_t born = 0;
    float hardness = 0;  // what it weighs at first
    float weight = 0;
  };

  void Look(const std::vector<FreeBlocks::Element>& elements, uint32_t now, int64_t capacity);
  void AddStretch(int64_t lower, int64_t upper, uint32_t left);
  void AddCells(int64_t lower, int64_t upper);
  uint32_t TakeFromPool();
  int64_t FindPlace(const Mover& mover);
  void Put(uint32_t mover, int64_t address);

  int64_t cell_ = 1;            // units
  std::vector<uint32_t> left_;  // per cell: when the last one left it
  int64_t work_left_ = 0;
  Random random_{1};
  std::vector<Stretch> stretches_;  // from below; no two neighbours were left at the same time
  std::vector<Lying> lying_;        // from below
  std::vector<Mover> movers_;
  std::vector<uint32_t> pool_;
};

}  // namespace reprise::planner

#endif  // REPRISE_PLANNER_PLACEMENT_RESHUFFLE_H_

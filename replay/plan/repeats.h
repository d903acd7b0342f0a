// Tandem repeats in a sequence of symbols.
//
// Near-linear: for windows of several lengths the distance to the latest earlier window with the
// same hash is a vote for a period. The periods with most votes are verified symbol by symbol.
// (Main and Lorentz, 1984, find all repeats; a loop needs only the long ones.)
#ifndef REPRISE_REPLAY_PLAN_REPEATS_H_
#define REPRISE_REPLAY_PLAN_REPEATS_H_

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

namespace reprise::replay {

// symbols[i] == symbols[i + period] for begin <= i < end - period; end - begin >= 2 * period. It
// cannot be extended to either side.
struct Repeat {
  size_t begin = 0;
  size_t end = 0;
  size_t period = 0;
};

// Long repeats, the longest first, of one length those of the shorter period. They may overlap.
// Shorter ones than `least` symbols are left out. O(n) time with a factor of about 40, and O(n)
// memory.
std::vector<Repeat> FindRepeats(std::span<const uint64_t> symbols, size_t least);

// Repeats that begin at one of `starts` (ascending positions) and whose period is the distance of
// two of them that are near each other; in the same order.
std::vector<Repeat> FindRepeatsFrom(std::span<const uint64_t> symbols,
                                    std::span<const uint32_t> starts);

}  // namespace reprise::replay

#endif  // REPRISE_REPLAY_PLAN_REPEATS_H_

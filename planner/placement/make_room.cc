#include "planner/placement/make_room.h"

#include <algorithm>

namespace reprise::planner {
namespace {

using Element = FreeBlocks::Element;

// Blocks that move away together.
constexpr int kMostMovers = 4;

// Stretches of elements that are tried.
constexpr size_t kWindows = 128;

// Free blocks that are tried for one that moves.
constexpr int kTries = 64;

// The elements [first, last], the taken ones among which move.
struct Window {
  uint32_t first;
  uint32_t last;
  int64_t cost;
};

// Those in which the least is moved and left over.
std::vector<Window> Windows(const std::vector<Element>& elements, int64_t size) {
  std::vector<Window> windows;
  for (uint32_t first = 0; first < elements.size(); ++first) {
    int64_t room = 0;
    int64_t moved = 0;
    int movers = 0;
    for (uint32_t e = first; e < elements.size(); ++e) {
      room += elements[e].size;
      if (!elements[e].free) {
        if (elements[e].note.since == FreeBlocks::Note::kNever || ++movers > kMostMovers) break;
        moved += elements[e].size;
        if (moved >= size) break;
      }
      if (room < size) continue;
      windows.push_back({first, e, moved + room - size});
      break;
    }
  }
  const size_t count = std::min(kWindows, windows.size());
  std::partial_sort(windows.begin(), windows.begin() + static_cast<std::ptrdiff_t>(count),
                    windows.end(), [](const Window& a, const Window& b) {
                      return a.cost != b.cost ? a.cost < b.cost : a.first < b.first;
                    });
  windows.resize(count);
  return windows;
}

// Finds places for all that leave a window, the largest first.
bool Empty(const std::vector<Element>& elements, const std::vector<uint32_t>& free,
           const Window& window, std::vector<Move>& moves) {
  std::vector<uint32_t> movers;
  for (uint32_t e = window.first; e <= window.last; ++e) {
    if (!elements[e].free) movers.push_back(e);
  }
  std::sort(movers.begin(), movers.end(), [&](uint32_t a, uint32_t b) {
    return elements[a].size != elements[b].size ? elements[a].size > elements[b].size : a < b;
  });
  std::vector<uint32_t> used;
  const auto usable = [&](uint32_t place, uint32_t mover) {
    return elements[place].note.since <= elements[mover].note.born &&
           (place < window.first || place > window.last) &&
           std::find(used.begin(), used.end(), place) == used.end();
  };
  for (const uint32_t mover : movers) {
    auto place = std::partition_point(free.begin(), free.end(), [&](uint32_t e) {
      return elements[e].size < elements[mover].size;
    });
    const auto end = free.end() - place > kTries ? place + kTries : free.end();
    place = std::find_if(place, end, [&](uint32_t e) { return usable(e, mover); });
    if (place == end) return false;
    used.push_back(*place);
    moves.push_back({mover, elements[*place].address});
  }
  return true;
}

}  // namespace

std::vector<Move> MakeRoom(const std::vector<Element>& elements, int64_t size) {
  std::vector<uint32_t> free;  // by size
  for (uint32_t e = 0; e < elements.size(); ++e) {
    if (elements[e].free) free.push_back(e);
  }
  std::stable_sort(free.begin(), free.end(),
                   [&](uint32_t a, uint32_t b) { return elements[a].size < elements[b].size; });
  std::vector<Move> moves;
  for (const Window& window : Windows(elements, size)) {
    moves = {{Move::kTarget, elements[window.first].address}};
    if (Empty(elements, free, window, moves)) return moves;
  }
  return {};
}

}  // namespace reprise::planner

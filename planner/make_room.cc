#include "planner/make_room.h"

#include <algorithm>
#include <utility>

namespace reprise::planner {
namespace {

// Blocks that move away from one window.
constexpr int kMost = 4;

// Windows that are tried at one place of a chain.
constexpr size_t kWindows = 128;

// Longest chain of moves, and how often windows are looked for in all where there are chains.
constexpr int kLongest = 3;
constexpr int kSearches = 48;

// Free blocks that are tried for one that moves.
constexpr int kTries = 64;

}  // namespace

RoomMaker::RoomMaker(std::vector<FreeBlocks::Element> elements)
    : elements_(std::move(elements)), claimed_(elements_.size()) {
  for (uint32_t e = 0; e < elements_.size(); ++e) {
    if (elements_[e].free) free_.push_back(e);
  }
  std::sort(free_.begin(), free_.end(), [&](uint32_t a, uint32_t b) {
    return elements_[a].size != elements_[b].size ? elements_[a].size < elements_[b].size : a < b;
  });
}

std::vector<RoomMaker::Move> RoomMaker::Make(int64_t size) {
  // Single moves are found in no time, so they come first.
  for (longest_ = 1; longest_ <= kLongest; ++longest_) {
    searches_ = kSearches;
    if (Place(kTarget, size, FreeBlocks::Note::kNever - 1, 0)) return moves_;
  }
  return {};
}

bool RoomMaker::PlaceInFree(uint32_t element, int64_t size, uint32_t since) {
  auto it = std::partition_point(free_.begin(), free_.end(),
                                 [&](uint32_t e) { return elements_[e].size < size; });
  for (int tries = 0; it != free_.end() && tries < kTries; ++it, ++tries) {
    if (!Usable(*it, since)) continue;
    claimed_[*it] = true;
    claims_.push_back(*it);
    moves_.push_back({element, elements_[*it].address});
    return true;
  }
  return false;
}

// Those that move the least.
std::vector<RoomMaker::Window> RoomMaker::Windows(int64_t size, uint32_t since) const {
  std::vector<Window> windows;
  for (uint32_t first = 0; first < elements_.size(); ++first) {
    int64_t room = 0;
    int64_t moved = 0;
    int movers = 0;
    for (uint32_t e = first; e < elements_.size() && Usable(e, since); ++e) {
      room += elements_[e].size;
      if (!elements_[e].free) {
        if (++movers > kMost) break;
        moved += elements_[e].size;
      }
      if (room < size) continue;
      if (moved < size) windows.push_back({first, e, moved + room - size});
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

bool RoomMaker::Place(uint32_t element, int64_t size, uint32_t since, int moves_before) {
  if (PlaceInFree(element, size, since)) return true;
  if (moves_before == longest_ || searches_ == 0) return false;
  --searches_;
  for (const Window& window : Windows(size, since)) {
    const size_t claims = claims_.size();
    const size_t moves = moves_.size();
    if (PlaceInWindow(window, element, moves_before)) return true;
    moves_.resize(moves);
    for (; claims_.size() > claims; claims_.pop_back()) claimed_[claims_.back()] = false;
  }
  return false;
}

bool RoomMaker::PlaceInWindow(const Window& window, uint32_t element, int moves_before) {
  std::vector<uint32_t> movers;
  for (uint32_t e = window.first; e <= window.last; ++e) {
    claimed_[e] = true;
    claims_.push_back(e);
    if (!elements_[e].free) movers.push_back(e);
  }
  moves_.push_back({element, elements_[window.first].address});
  std::sort(movers.begin(), movers.end(), [&](uint32_t a, uint32_t b) {
    return elements_[a].size != elements_[b].size ? elements_[a].size > elements_[b].size : a < b;
  });
  return std::all_of(movers.begin(), movers.end(), [&](uint32_t e) {
    return Place(e, elements_[e].size, elements_[e].note.born, moves_before + 1);
  });
}

}  // namespace reprise::planner

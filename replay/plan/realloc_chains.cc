#include "replay/plan/realloc_chains.h"

#include <algorithm>
#include <bit>
#include <numeric>
#include <utility>

namespace reprise::replay {
namespace {

using planner::Buffer;
using planner::Instance;

// Joined buffers may bring the load up to the peak less one part in so many: where memory is about
// full, the planner needs what is left.
constexpr int64_t kRoom = 16;

// The load at every birth, where it can be raised for a stretch of them. A segment tree.
class Loads {
 public:
  explicit Loads(const std::vector<int64_t>& at_birth)
      : leaves_(std::bit_ceil(at_birth.size())), most_(2 * leaves_), added_(leaves_) {
    std::copy(at_birth.begin(), at_birth.end(), most_.begin() + static_cast<ptrdiff_t>(leaves_));
    for (size_t node = leaves_; node-- > 1;) {
      most_[node] = std::max(most_[2 * node], most_[2 * node + 1]);
    }
  }

  // The most in [begin, end), which is not empty.
  int64_t Most(size_t begin, size_t end) const { return Most(1, 0, leaves_, begin, end); }
  void Add(size_t begin, size_t end, int64_t bytes) { Add(1, 0, leaves_, begin, end, bytes); }

 private:
  int64_t Most(size_t node, size_t low, size_t high, size_t begin, size_t end) const {
    if (end <= low || high <= begin) return 0;
    if (begin <= low && high <= end) return most_[node];
    const size_t middle = (low + high) / 2;
    return added_[node] + std::max(Most(2 * node, low, middle, begin, end),
                                   Most(2 * node + 1, middle, high, begin, end));
  }
  void Add(size_t node, size_t low, size_t high, size_t begin, size_t end, int64_t bytes) {
    if (end <= low || high <= begin) return;
    if (begin <= low && high <= end) {
      most_[node] += bytes;
      if (node < leaves_) added_[node] += bytes;
      return;
    }
    const size_t middle = (low + high) / 2;
    Add(2 * node, low, middle, begin, end, bytes);
    Add(2 * node + 1, middle, high, begin, end, bytes);
    most_[node] = added_[node] + std::max(most_[2 * node], most_[2 * node + 1]);
  }

  size_t leaves_;
  std::vector<int64_t> most_;   // below the node, with what was added there and at the node itself
  std::vector<int64_t> added_;  // to all below the node
};

class Joiner {
 public:
  explicit Joiner(const Instance& instance)
      : instance_(instance), loads_(LoadAtBirths()), part_of_(instance.buffers.size()) {
    std::iota(part_of_.begin(), part_of_.end(), 0);
    joined_ = instance.buffers;
    most_ = loads_.Most(0, joined_.size());
    most_ -= most_ / kRoom;
  }

  // Makes one buffer of those that two are part of, if the load allows it.
  bool Join(uint32_t earlier, uint32_t later) {
    const uint32_t first = FirstOf(earlier);
    const uint32_t second = FirstOf(later);
    const Buffer& a = joined_[first];
    const Buffer& b = joined_[second];
    const int64_t size = std::max(a.size, b.size);
    if (!HasRoom(a.lower, a.upper, size - a.size) || !HasRoom(a.upper, b.lower, size) ||
        !HasRoom(b.lower, b.upper, size - b.size)) {
      return false;
    }
    Raise(a.lower, a.upper, size - a.size);
    Raise(a.upper, b.lower, size);
    Raise(b.lower, b.upper, size - b.size);
    joined_[first] = {a.lower, b.upper, size};
    part_of_[second] = first;
    return true;
  }

  Chains Finish(uint64_t links) {
    Chains chains;
    chains.links = links;
    chains.joined.alignment = instance_.alignment;
    chains.joined.start_address = instance_.start_address;
    chains.buffer_of.resize(joined_.size());
    const bool aligned = !instance_.alignments.empty();
    for (uint32_t k = 0; k < joined_.size(); ++k) {
      const uint32_t first = FirstOf(k);
      if (first == k) {
        chains.buffer_of[k] = static_cast<uint32_t>(chains.joined.buffers.size());
        chains.joined.buffers.push_back(joined_[k]);
        if (aligned) chains.joined.alignments.push_back(instance_.alignments[k]);
        continue;
      }
      const uint32_t buffer = chains.buffer_of[k] = chains.buffer_of[first];
      if (!aligned) continue;
      int64_t& alignment = chains.joined.alignments[buffer];
      alignment = std::max(alignment, instance_.alignments[k]);
    }
    return chains;
  }

 private:
  std::vector<int64_t> LoadAtBirths() const {
    std::vector<int64_t> load(instance_.buffers.size() + 1);
    for (size_t k = 0; k < instance_.buffers.size(); ++k) {
      const Buffer& buffer = instance_.buffers[k];
      const int64_t size = planner::RoundUp(buffer.size, instance_.alignment);
      load[k] += size;
      load[BirthsBefore(buffer.upper)] -= size;
    }
    load.pop_back();
    std::partial_sum(load.begin(), load.end(), load.begin());
    return load;
  }
  size_t BirthsBefore(int64_t time) const {
    const auto& buffers = instance_.buffers;
    const auto at =
        std::lower_bound(buffers.begin(), buffers.end(), time,
                         [](const Buffer& buffer, int64_t bound) { return buffer.lower < bound; });
    return static_cast<size_t>(at - buffers.begin());
  }

  // Whether `bytes` more, rounded, are no harm in [lower, upper). Between births the load only
  // falls.
  bool HasRoom(int64_t lower, int64_t upper, int64_t bytes) const {
    const size_t begin = BirthsBefore(lower);
    const size_t end = BirthsBefore(upper);
    return bytes == 0 || begin == end || loads_.Most(begin, end) + Rounded(bytes) <= most_;
  }
  void Raise(int64_t lower, int64_t upper, int64_t bytes) {
    const size_t begin = BirthsBefore(lower);
    const size_t end = BirthsBefore(upper);
    if (bytes != 0 && begin != end) loads_.Add(begin, end, Rounded(bytes));
  }
  int64_t Rounded(int64_t bytes) const { return planner::RoundUp(bytes, instance_.alignment); }

  // The first buffer of the chain that k is in.
  uint32_t FirstOf(uint32_t k) {
    while (part_of_[k] != k) k = part_of_[k] = part_of_[part_of_[k]];
    return k;
  }

  const Instance& instance_;
  Loads loads_;
  std::vector<uint32_t> part_of_;
  std::vector<Buffer> joined_;  // of those that are the first of their chain
  int64_t most_;                // the load may become this
};

}  // namespace

Chains JoinChains(const Instance& instance, const std::vector<uint32_t>& previous) {
  struct Link {
    int64_t moved;  // bytes that it would move
    uint32_t later;
  };
  std::vector<Link> links;
  const auto& buffers = instance.buffers;
  std::vector<bool> continued(buffers.size());
  for (uint32_t k = 0; k < buffers.size(); ++k) {
    const uint32_t earlier = previous[k];
    if (earlier == kNoBuffer || continued[earlier]) continue;
    if (buffers[earlier].upper > buffers[k].lower) continue;
    continued[earlier] = true;
    links.push_back({std::min(buffers[earlier].size, buffers[k].size), k});
  }
  std::stable_sort(links.begin(), links.end(),
                   [](const Link& a, const Link& b) { return a.moved > b.moved; });
  Chains chains;
  if (links.empty()) return chains;
  Joiner joiner(instance);
  uint64_t joined = 0;
  for (const Link& link : links) {
    if (joiner.Join(previous[link.later], link.later)) ++joined;
  }
  return joined > 0 ? joiner.Finish(joined) : chains;
}

}  // namespace reprise::replay

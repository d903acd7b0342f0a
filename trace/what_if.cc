#include "trace/what_if.h"

#include <algorithm>

#include "trace/statistics.h"

namespace reprise::trace {
namespace {

constexpr uint32_t kNotAsked = kNone - 1;

}  // namespace

WhatIfBuilder::WhatIfBuilder(const Recording& recording, const std::vector<uint32_t>& sites)
    : recording_(recording) {
  for (const uint32_t site : sites) {
    if (site == kNone) continue;
    const auto [entry, added] = places_.try_emplace(PlaceOf(recording.sites[site]),
                                                    static_cast<uint32_t>(candidates_.size()));
    if (!added) continue;
    candidates_.emplace_back();
    candidates_.back().result.site = site;
  }
}

void WhatIfBuilder::Add(const Event& event) {
  const bool birth = event.kind == EventKind::kAllocate;
  if (!birth && event.kind != EventKind::kFree && event.kind != EventKind::kImpliedFree) return;
  uint32_t index = kNotAsked;
  if (event.site != kNone) {
    if (candidate_of_.size() <= event.site) candidate_of_.resize(size_t{event.site} * 2 + 1, kNone);
    uint32_t& known = candidate_of_[event.site];
    if (known == kNone) {
      const auto found = places_.find(PlaceOf(recording_.sites[event.site]));
      known = found == places_.end() ? kNotAsked : found->second;
    }
    index = known;
  }
  const uint64_t bytes = BlockBytes(event.size);
  if (!birth) {
    load_ -= bytes;
    if (index == kNotAsked) return;
    Candidate& own = candidates_[index];
    own.load -= bytes;
    --own.blocks;
    own.most_at_end = own.most_in_lane;
    return;
  }
  load_ += bytes;
  if (index != kNotAsked) {
    Candidate& own = candidates_[index];
    own.load += bytes;
    ++own.blocks;
    if (!own.begun) own.most_in_lane = load_ - own.load;
    own.begun = true;
    own.result.peak_bytes = std::max(own.result.peak_bytes, own.load);
    own.most_freed = std::max(own.most_freed, load_ - own.load + bytes);
  }
  for (Candidate& it : candidates_) {
    const uint64_t rest = load_ - it.load;
    it.most_rest = std::max(it.most_rest, rest);
    if (it.begun) it.most_in_lane = std::max(it.most_in_lane, rest);
  }
}

std::vector<WhatIf> WhatIfBuilder::Finish() const {
  std::vector<WhatIf> results;
  for (const Candidate& it : candidates_) {
    WhatIf result = it.result;
    result.freed_at_once = std::max(it.most_rest, it.most_freed);
    result.pooled = it.most_rest + result.peak_bytes;
    const uint64_t beside = it.blocks > 0 ? it.most_in_lane : it.most_at_end;
    result.own_lane = std::max(it.most_rest, beside + result.peak_bytes);
    results.push_back(result);
  }
  return results;
}

}  // namespace reprise::trace

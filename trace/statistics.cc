#include "trace/statistics.h"

#include <algorithm>
#include <bit>
#include <map>
#include <utility>

#include "trace/reader.h"

namespace reprise::trace {

uint64_t BlockBytes(uint64_t size, uint64_t alignment) {
  if (size == 0) return alignment > 1 ? alignment : 0;
  if (size > UINT64_MAX - (alignment - 1)) return UINT64_MAX & ~(alignment - 1);
  return (size + alignment - 1) & ~(alignment - 1);
}

// A site's load at the peak is kept only when it changes afterwards; that makes a new peak O(1).
StatisticsBuilder::SiteLoad& StatisticsBuilder::Load(uint32_t site) {
  const size_t place = site == kNone ? 0 : size_t{site} + 1;
  if (sites_.size() <= place) sites_.resize(std::max(place + 1, sites_.size() * 2));
  SiteLoad& load = sites_[place];
  if (load.peak != peaks_) {
    load.peak = peaks_;
    load.peak_bytes = load.bytes;
    load.peak_blocks = load.blocks;
  }
  return load;
}

void StatisticsBuilder::Add(const Event& event) {
  const uint64_t bytes = BlockBytes(event.size, alignment_);
  switch (event.kind) {
    case EventKind::kAllocate: {
      SiteLoad& site = Load(event.site);
      site.bytes += bytes;
      ++site.blocks;
      ++statistics_.buffers;
      statistics_.sum_bytes += event.size;
      ++statistics_.sizes[std::bit_width(event.size)];
      load_ += bytes;
      requested_load_ += event.size;
      statistics_.requested_max_load = std::max(statistics_.requested_max_load, requested_load_);
      if (load_ > statistics_.max_load) {
        statistics_.max_load = load_;
        statistics_.peak_event = event.index;
        ++peaks_;
      }
      return;
    }
    case EventKind::kFree:
    case EventKind::kImpliedFree: {
      SiteLoad& site = Load(event.site);
      site.bytes -= bytes;
      --site.blocks;
      ++statistics_.frees;
      ++statistics_.lifetimes[std::bit_width(event.index - event.birth)];
      load_ -= bytes;
      requested_load_ -= event.size;
      return;
    }
    case EventKind::kUnmatchedFree:
    case EventKind::kUsable:
      return;
  }
}

Statistics StatisticsBuilder::Finish(const std::vector<Site>& sites, size_t count) const {
  Statistics result = statistics_;
  result.never_freed_bytes = requested_load_;
  std::map<SitePlace, SitePeak> peaks;
  for (size_t i = 0; i < sites_.size(); ++i) {
    const SiteLoad& load = sites_[i];
    const bool changed = load.peak == peaks_;
    const uint64_t blocks = changed ? load.peak_blocks : load.blocks;
    if (blocks == 0) continue;
    const uint32_t index = i == 0 ? kNone : static_cast<uint32_t>(i - 1);
    const SitePlace place = i == 0 ? PlaceOfNone() : PlaceOf(sites[index]);
    SitePeak& peak = peaks.try_emplace(place, SitePeak{.site = index}).first->second;
    peak.bytes += changed ? load.peak_bytes : load.bytes;
    peak.blocks += blocks;
  }
  for (const auto& [place, peak] : peaks) result.top_sites.push_back(peak);
  std::stable_sort(result.top_sites.begin(), result.top_sites.end(),
                   [](const SitePeak& a, const SitePeak& b) { return a.bytes > b.bytes; });
  if (result.top_sites.size() > count) result.top_sites.resize(count);
  return result;
}

Statistics ComputeStatistics(const Recording& recording, size_t top_sites) {
  StatisticsBuilder builder;
  ForEachEvent(recording, [&](const Event& event) { builder.Add(event); });
  return builder.Finish(recording.sites, top_sites);
}

Statistics ComputeStatistics(const CsvInstance& instance, const Recording& recording) {
  StatisticsBuilder builder(1);
  ForEachEvent(recording, [&](const Event& event) { builder.Add(event); });
  Statistics statistics = builder.Finish(recording.sites, 0);
  statistics.lifetimes = {};
  for (const CsvBuffer& it : instance.buffers) {
    ++statistics.lifetimes[std::bit_width(static_cast<uint64_t>(it.upper - it.lower))];
  }
  const CsvPeak peak = Peak(instance);
  statistics.max_load = statistics.requested_max_load = static_cast<uint64_t>(peak.load);
  statistics.peak_event = peak.event;
  return statistics;
}

}  // namespace reprise::trace

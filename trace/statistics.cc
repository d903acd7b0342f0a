#include "trace/statistics.h"

#include <algorithm>
#include <bit>

#include "trace/reader.h"

namespace reprise::trace {

uint64_t BlockBytes(uint64_t size, uint64_t alignment) {
  if (size == 0) return alignment;
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

Statistics StatisticsBuilder::Finish(size_t sites) const {
  Statistics result = statistics_;
  result.never_freed_bytes = requested_load_;
  std::vector<SitePeak> peaks;
  for (size_t i = 0; i < sites_.size(); ++i) {
    const SiteLoad& site = sites_[i];
    const bool changed = site.peak == peaks_;
    const SitePeak peak{i == 0 ? kNone : static_cast<uint32_t>(i - 1),
                        changed ? site.peak_bytes : site.bytes,
                        changed ? site.peak_blocks : site.blocks};
    if (peak.blocks > 0) peaks.push_back(peak);
  }
  const size_t count = std::min(sites, peaks.size());
  std::partial_sort(peaks.begin(), peaks.begin() + static_cast<ptrdiff_t>(count), peaks.end(),
                    [](const SitePeak& a, const SitePeak& b) {
                      return a.bytes != b.bytes ? a.bytes > b.bytes : a.site < b.site;
                    });
  peaks.resize(count);
  result.top_sites = std::move(peaks);
  return result;
}

Statistics ComputeStatistics(const Recording& recording, size_t sites) {
  StatisticsBuilder builder;
  ForEachEvent(recording, [&](const Event& event) { builder.Add(event); });
  return builder.Finish(sites);
}

}  // namespace reprise::trace

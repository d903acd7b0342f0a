#include "report/model.h"

#include <zlib.h>

#include <algorithm>
#include <bit>
#include <cstring>
#include <numeric>
#include <tuple>
#include <utility>

#include "absl/container/flat_hash_map.h"
#include "absl/strings/escaping.h"
#include "base/page.h"
#include "trace/reader.h"

namespace reprise::report {
namespace {

using trace::Allocation;
using trace::kNever;
using trace::kNone;
using trace::Recording;

constexpr uint64_t kPage = base::kPageBytes;

// The bytes of `value` go to as many planes as the type is wide.
void Spread(uint64_t value, int width, size_t index, size_t count, std::string& planes) {
  for (int byte = 0; byte < width; ++byte) {
    planes[static_cast<size_t>(byte) * count + index] = static_cast<char>(value >> (8 * byte));
  }
}

std::string Deflate(const std::string& bytes) {
  // Beyond this level it takes three times as long for a tenth less.
  constexpr int kLevel = 4;
  uLongf length = compressBound(bytes.size());
  std::string packed(length, '\0');
  compress2(reinterpret_cast<Bytef*>(packed.data()), &length,
            reinterpret_cast<const Bytef*>(bytes.data()), bytes.size(), kLevel);
  packed.resize(length);
  return packed;
}

}  // namespace

Column PackColumn(const std::string& name, const std::vector<int64_t>& values, bool delta) {
  Column column{.name = name, .count = values.size(), .delta = delta};
  const auto at = [&](size_t i) { return delta && i > 0 ? values[i] - values[i - 1] : values[i]; };
  int64_t highest = 0;
  bool nowhere = false;
  for (size_t i = 0; i < values.size(); ++i) {
    highest = std::max(highest, at(i));
    nowhere |= values[i] == HeapMap::kNowhere;
  }
  if (nowhere) ++highest;  // the highest number has a meaning
  // Every byte less is a plane less that the page has to unpack before it can paint.
  int& width = column.bytes;
  while (width < 4 && highest >> (8 * width) != 0) ++width;
  if (highest > int64_t{UINT32_MAX}) width = 8;
  std::string planes(values.size() * static_cast<size_t>(width), '\0');
  for (size_t i = 0; i < values.size(); ++i) {
    const uint64_t bits = width == 8 ? std::bit_cast<uint64_t>(static_cast<double>(at(i)))
                                     : static_cast<uint64_t>(at(i));
    Spread(bits, width, i, values.size(), planes);
  }
  column.text = absl::Base64Escape(Deflate(planes));
  return column;
}

Column PackBytes(const std::string& name, const std::string& values) {
  return {.name = name, .count = values.size(), .text = absl::Base64Escape(Deflate(values))};
}

namespace {

// A row for each of `places`, which are the sites' in their order.
SiteTable TabulatePlaces(const Recording& recording, const std::vector<trace::SitePlace>& places,
                         uint64_t peak_event, uint64_t alignment) {
  SiteTable table;
  absl::flat_hash_map<trace::SitePlace, uint32_t> known;
  table.row_of.resize(recording.sites.size() + 1, kNone);
  for (uint32_t i = 0; i < recording.sites.size(); ++i) {
    const auto [entry, added] =
        known.try_emplace(places[i], static_cast<uint32_t>(table.rows.size()));
    if (added) table.rows.push_back({.site = i, .callers = std::get<2>(places[i]) != kNone});
    table.row_of[i] = entry->second;
  }
  table.row_of.back() = static_cast<uint32_t>(table.rows.size());
  table.rows.push_back({});
  for (const Allocation& it : recording.allocations) {
    SiteTable::Row& row = table.rows[table.Of(it.site)];
    const uint64_t bytes = trace::BlockBytes(it.size, alignment);
    ++row.allocations;
    row.bytes += it.size;
    if (it.birth <= peak_event && peak_event < it.death) {
      row.peak_bytes += bytes;
      ++row.peak_blocks;
    }
    if (it.death == kNever) row.end_bytes += it.size;
  }
  std::vector<uint32_t> order(table.rows.size());
  std::iota(order.begin(), order.end(), 0);
  std::stable_sort(order.begin(), order.end(), [&](uint32_t a, uint32_t b) {
    const SiteTable::Row& first = table.rows[a];
    const SiteTable::Row& second = table.rows[b];
    return std::pair(first.peak_bytes, first.bytes) > std::pair(second.peak_bytes, second.bytes);
  });
  while (!order.empty() && table.rows[order.back()].allocations == 0) order.pop_back();
  std::vector<uint32_t> place(table.rows.size(), 0);
  std::vector<SiteTable::Row> rows;
  for (uint32_t i = 0; i < order.size(); ++i) {
    place[order[i]] = i;
    rows.push_back(table.rows[order[i]]);
  }
  table.rows = std::move(rows);
  for (uint32_t& row : table.row_of) row = place[row];
  return table;
}

}  // namespace

SiteTable TabulateSites(const Recording& recording, uint64_t peak_event, uint64_t alignment) {
  std::vector<trace::SitePlace> places;
  places.reserve(recording.sites.size());
  for (const trace::Site& site : recording.sites) places.push_back(trace::PlaceOf(site));
  SiteTable table = TabulatePlaces(recording, places, peak_event, alignment);
  if (recording.stacks.empty() || table.rows.size() <= kMostNamedSites) return table;
  for (uint32_t i = 0; i < places.size(); ++i) {
    if (table.row_of[i] >= kMostNamedSites) std::get<2>(places[i]) = kNone;
  }
  return TabulatePlaces(recording, places, peak_event, alignment);
}

LoadCurve CurveOf(const Recording& recording, size_t count, uint64_t alignment) {
  LoadCurve curve;
  if (recording.events == 0) return curve;
  const uint64_t stretch = std::max<uint64_t>(1, recording.events / std::max<size_t>(count, 1));
  uint64_t live = 0, requested = 0;
  uint64_t next = 0;  // where the next stretch begins
  const auto add = [&](const trace::Event& event) {
    if (event.kind != trace::EventKind::kAllocate && event.kind != trace::EventKind::kFree &&
        event.kind != trace::EventKind::kImpliedFree) {
      return;
    }
    const bool birth = event.kind == trace::EventKind::kAllocate;
    const uint64_t bytes = trace::BlockBytes(event.size, alignment);
    live = birth ? live + bytes : live - bytes;
    requested = birth ? requested + event.size : requested - event.size;
    if (event.index >= next) {
      next = (event.index / stretch + 1) * stretch;
      curve.events.push_back(event.index);
      curve.live.push_back(live);
      curve.requested.push_back(requested);
    } else if (live > curve.live.back()) {
      curve.events.back() = event.index;
      curve.live.back() = live;
      curve.requested.back() = requested;
    }
  };
  trace::ForEachEvent(recording, add);
  return curve;
}

HeapMap CompactAddresses(const Recording& recording, const replay::Observation& seen) {
  const std::vector<uint64_t>& addresses = seen.addresses;
  HeapMap map;
  map.kind = "allocator";
  map.most_held = seen.most_held;
  map.offsets.assign(addresses.size(), HeapMap::kNowhere);
  std::vector<uint32_t> order;
  for (uint32_t i = 0; i < addresses.size(); ++i) {
    if (addresses[i] != 0) order.push_back(i);
  }
  std::sort(order.begin(), order.end(),
            [&](uint32_t a, uint32_t b) { return addresses[a] < addresses[b]; });
  uint64_t left_out = 0;  // addresses below the current one that never held a block
  uint64_t end = 0;       // of the pages so far
  std::vector<std::pair<uint64_t, uint64_t>> from;  // an address, and what is left out below it
  for (const uint32_t i : order) {
    const uint64_t size = std::max<uint64_t>(recording.allocations[i].size, 1);
    const uint64_t first = addresses[i] & ~(kPage - 1);
    if (first > end) {
      left_out += first - end;
      end = first;
      from.emplace_back(first, left_out);
    }
    end = std::max(end, (addresses[i] + size + kPage - 1) & ~(kPage - 1));
    map.offsets[i] = static_cast<int64_t>(addresses[i] - left_out);
  }
  map.height = static_cast<int64_t>(end - left_out);
  map.returned = seen.returned;
  for (replay::Returned& it : map.returned) {  // lies between two of these
    const auto next = std::upper_bound(from.begin(), from.end(), std::pair(it.begin, UINT64_MAX));
    if (next != from.begin()) it.begin -= std::prev(next)->second;
  }
  return map;
}

}  // namespace reprise::report

#include "cli/replay_findings.h"

#include <algorithm>
#include <cstring>
#include <map>
#include <nlohmann/json.hpp>
#include <span>
#include <utility>

#include "absl/strings/str_format.h"
#include "replay/arena/lane_notes.h"
#include "replay/arena/live_keys.h"

namespace reprise::cli {
namespace {

using nlohmann::ordered_json;
using replay::CountersLayout;
using replay::LaneCounters;
using replay::MissNote;
using replay::ModuleRange;
using replay::NotePage;
using replay::PlanBlock;
using replay::PlanFile;
using replay::PlanKey;
using replay::PlanLane;
using replay::PlanLoop;
using replay::PlanModule;
using replay::SquatterNote;

class Reader {
 public:
  Reader(const std::string& bytes, const PlanFile& plan, trace::Symbolizer& symbolizer)
      : bytes_(bytes),
        plan_(plan),
        symbolizer_(symbolizer),
        layout_(CountersLayout::Of(plan.header())) {
    for (uint64_t i = 0; i < plan.header().modules.count; ++i) {
      const auto& module = plan.table<PlanModule>(plan.header().modules)[i];
      names_.modules.push_back({plan.String(module.path_offset, module.path_bytes),
                                plan.String(module.build_id_offset, module.build_id_bytes)});
    }
  }

  Findings Read() {
    Findings findings;
    findings.recorded =
        plan_.String(plan_.header().executable_offset, plan_.header().executable_bytes);
    const auto* lanes = plan_.table<PlanLane>(plan_.header().lanes);
    for (size_t lane = 0; lane < plan_.header().lanes.count; ++lane) {
      findings.lanes.push_back({.path = lanes[lane].path});
      if (bytes_.size() >= layout_.bytes) ReadLane(lane, lanes[lane], findings);
    }
    if (bytes_.size() >= layout_.bytes) findings.missing_modules = MissingModules();
    const auto more = [](const auto& a, const auto& b) { return a > b; };
    std::stable_sort(findings.missed.begin(), findings.missed.end(),
                     [&](const auto& a, const auto& b) { return more(a.misses(), b.misses()); });
    std::stable_sort(findings.overstays.begin(), findings.overstays.end(),
                     [&](const auto& a, const auto& b) { return more(a.blocked, b.blocked); });
    return findings;
  }

 private:
  template <typename T>
  T At(uint64_t offset) const {
    T value;
    std::memcpy(&value, bytes_.data() + offset, sizeof(value));
    return value;
  }

  std::vector<std::string> MissingModules() const {
    std::vector<bool> used(plan_.header().modules.count);
    for (uint64_t i = 0; i < plan_.header().keys.count; ++i) {
      const uint32_t module = plan_.table<PlanKey>(plan_.header().keys)[i].module;
      if (module < used.size()) used[module] = true;
    }
    std::vector<std::string> missing;
    for (size_t i = 0; i < used.size(); ++i) {
      const auto range = At<ModuleRange>(layout_.modules + i * sizeof(ModuleRange));
      if (used[i] && range.end == 0) missing.push_back(names_.modules[i].path);
    }
    return missing;
  }

  void ReadLane(size_t index, const PlanLane& lane, Findings& findings) {
    const auto counters = At<LaneCounters>(index * sizeof(LaneCounters));
    if (counters.diverged_at == 0 && counters.blocked == 0) return;
    ReadBirths(lane);
    loops_ = {plan_.table<PlanLoop>(plan_.header().loops) + lane.first_loop, lane.loops};
    LaneFindings& found = findings.lanes.back();
    if (counters.diverged_at != 0) {
      found.divergence = {Ordinal(counters.diverged_at - 1), Expected(counters),
                          Live(counters.seen_shape, counters.seen_site)};
    }
    if (counters.off_plan_at != 0) found.off_plan_at = Ordinal(counters.off_plan_at - 1);
    for (uint32_t page = 0; page < layout_.pages; ++page) {
      const auto notes =
          At<NotePage>(layout_.notes + (index * layout_.pages + page) * sizeof(NotePage));
      found.unnamed += notes.unnamed;
      for (const auto& set : notes.misses) {
        for (const MissNote& note : set) {
          if (note.shape != 0) findings.missed.push_back(Missed(index, note));
        }
      }
      for (const auto& set : notes.squatters) {
        for (const SquatterNote& note : set) {
          const PlanBlock* block = Noted(note);
          if (block == nullptr) continue;
          // Of a lane that ran free nobody knows when a block was freed that did no harm before.
          if (note.blocked == 0 && (found.off_plan_at || !OutlivedItsPlan(*block, note))) continue;
          findings.overstays.push_back(Overstayed(index, *block, note));
        }
      }
    }
  }

  void ReadBirths(const PlanLane& lane) {
    lane_ = &lane;
    blocks_.clear();
    births_.clear();
    births_.reserve(lane.blocks);
    const auto* words = plan_.table<uint32_t>(plan_.header().words) + lane.first_word;
    for (uint32_t at = 0; at < lane.words;) {
      const replay::Word word = replay::DecodeWord(words + at, lane.offset_bits);
      if (word.kind == replay::Word::kEnded) break;
      if (word.kind == replay::Word::kAllocation) births_.push_back(at);
      at += word.length;
    }
  }

  // The block of the plan that a note is of. Null: of none; the program may have written over it.
  const PlanBlock* Noted(const SquatterNote& note) {
    if (note.word == 0) return nullptr;
    const uint32_t word = note.word - 1;
    const auto [begin, end] = PlannedThere(note.granule);
    const auto* after = std::partition_point(
        begin, end, [word](const PlanBlock& block) { return block.birth <= word; });
    if (after == begin || (after[-1].birth != word && after[-1].death != word)) return nullptr;
    return after - 1;
  }

  static bool OutlivedItsPlan(const PlanBlock& block, const SquatterNote& note) {
    return note.freed_at == 0 || note.freed_at > block.death;
  }

  // Which of the lane's allocations is the first at or after a word, in a loop's first pass.
  uint64_t Ordinal(uint64_t word) const {
    auto ordinal = static_cast<uint64_t>(std::lower_bound(births_.begin(), births_.end(), word) -
                                         births_.begin());
    // The recording went through loops more than once.
    for (const PlanLoop& loop : loops_) {
      if (word > uint64_t{loop.first_word} + loop.words) {
        ordinal += uint64_t{loop.blocks} * (loop.passes - 1);
      }
    }
    return ordinal;
  }

  // A request as the process saw it.
  Requested Live(uint64_t shape, uint64_t site) {
    Requested request;
    request.shape = shape;
    request.site.offset = replay::AddressOfSite(site);
    request.site.depth = replay::DepthOfSite(site);
    for (uint64_t i = 0; i < plan_.header().modules.count; ++i) {
      const auto range = At<ModuleRange>(layout_.modules + i * sizeof(ModuleRange));
      if (request.site.offset - range.begin >= range.end - range.begin) continue;
      request.site.module = static_cast<uint32_t>(i);
      request.site.offset -= range.base;
      break;
    }
    request.where = Describe(request.site);
    return request;
  }

  // What the plan expected where the run first differed. A module that the process does not have
  // has no addresses there: then the plan itself tells.
  Requested Expected(const LaneCounters& counters) {
    Requested expected = Live(counters.expected_shape, counters.expected_site);
    if (expected.shape == 0 || expected.site.module != trace::kNone) return expected;
    const auto birth = std::lower_bound(births_.begin(), births_.end(), counters.diverged_at - 1);
    if (birth == births_.end()) return expected;
    const auto* words = plan_.table<uint32_t>(plan_.header().words) + lane_->first_word;
    return Planned(replay::DecodeWord(words + *birth, lane_->offset_bits).key);
  }

  Requested Planned(uint32_t key_index) {
    const PlanKey& key = plan_.table<PlanKey>(plan_.header().keys)[key_index];
    Requested request;
    request.shape = key.shape;
    request.site = {key.module == replay::kNoModule ? trace::kNone : key.module, key.site_offset,
                    key.depth};
    request.where = Describe(request.site);
    return request;
  }

  MissedKind Missed(size_t index, const MissNote& note) {
    MissedKind missed{index, Live(note.shape, note.site), note.unexpected, note.blocked, {}};
    if (note.blocker != 0) missed.in_the_way = InTheWay(note.blocker - 1);
    return missed;
  }

  Overstay Overstayed(size_t index, const PlanBlock& block, const SquatterNote& note) {
    Overstay overstay;
    overstay.lane = index;
    overstay.allocation = Ordinal(block.birth);
    overstay.request = Planned(block.key);
    overstay.blocked = note.blocked;
    if (note.freed_at != 0) overstay.freed_before = Ordinal(note.freed_at);
    return overstay;
  }

  // The blocks that the lane has at a place, by birth. They are put in order when the first place
  // is looked at: most runs have none that is.
  std::pair<const PlanBlock*, const PlanBlock*> PlannedThere(uint32_t granule) {
    if (blocks_.empty()) {
      blocks_ = plan_.Blocks(*lane_);
      std::stable_sort(blocks_.begin(), blocks_.end(),
                       [](const PlanBlock& a, const PlanBlock& b) { return a.offset < b.offset; });
    }
    const PlanBlock* begin = blocks_.data();
    const PlanBlock* end = begin + blocks_.size();
    const auto* first = std::partition_point(
        begin, end, [granule](const PlanBlock& block) { return block.offset < granule; });
    return {first, std::partition_point(first, end, [granule](const PlanBlock& block) {
              return block.offset == granule;
            })};
  }

  // The kind of request that the plan has at a place most often; empty: it has none.
  std::string InTheWay(uint32_t granule) {
    std::map<uint32_t, uint64_t> count;
    const auto [begin, end] = PlannedThere(granule);
    for (const auto* block = begin; block < end; ++block) ++count[block->key];
    if (count.empty()) return {};
    return Planned(
               std::max_element(count.begin(), count.end(),
                                [](const auto& a, const auto& b) { return a.second < b.second; })
                   ->first)
        .where;
  }

  std::string Describe(const trace::Site& site) {
    const auto [entry, fresh] = described_.try_emplace({site.module, site.offset});
    if (!fresh) return entry->second;
    trace::Symbol symbol;
    if (site.module != trace::kNone) {
      symbol = symbolizer_.Find(names_.modules[site.module], site.offset);
    }
    names_.sites = {site};
    const bool known = site.module != trace::kNone || site.offset != 0;
    return entry->second = trace::DescribeSite(names_, known ? 0 : trace::kNone, symbol);
  }

  const std::string& bytes_;
  const PlanFile& plan_;
  trace::Symbolizer& symbolizer_;
  CountersLayout layout_;
  trace::Recording names_;           // modules, and the site that is being described
  const PlanLane* lane_ = nullptr;   // that is read
  std::vector<PlanBlock> blocks_;    // its blocks, by offset and birth; empty: not wanted so far
  std::vector<uint32_t> births_;     // its allocation words
  std::span<const PlanLoop> loops_;  // its loops
  std::map<std::pair<uint32_t, uint64_t>, std::string> described_;
};

std::string Hexadecimal(uint64_t number) { return absl::StrFormat("%016x", number); }

ordered_json Json(const Requested& request) {
  ordered_json json = {{"where", request.where},
                       {"bytes", request.bytes()},
                       {"shape", request.shape},
                       {"offset", request.site.offset},
                       {"depth", request.site.depth}};
  if (request.site.module != trace::kNone) json["module"] = request.site.module;
  return json;
}

}  // namespace

Findings FindWhatWentWrong(const std::string& counters, const PlanFile& plan,
                           trace::Symbolizer& symbolizer) {
  return Reader(counters, plan, symbolizer).Read();
}

void AddFindings(const Findings& findings, ordered_json& image) {
  for (size_t i = 0; i < std::min(findings.lanes.size(), image["lanes"].size()); ++i) {
    const LaneFindings& lane = findings.lanes[i];
    ordered_json& json = image["lanes"][i];
    json["thread"] = Hexadecimal(lane.path);
    if (lane.divergence) {
      json["diverged_at_allocation"] = lane.divergence->allocation;
      json["expected"]["where"] = lane.divergence->expected.where;
      json["seen"]["where"] = lane.divergence->seen.where;
    }
    json["blocked_by_unnamed"] = lane.unnamed;
    if (lane.off_plan_at) json["off_plan_at_allocation"] = *lane.off_plan_at;
  }
  image["missed_sites"] = ordered_json::array();
  for (const MissedKind& missed : findings.missed) {
    const LaneFindings& lane = findings.lanes[missed.lane];
    ordered_json json = {{"thread", Hexadecimal(lane.path)}};
    json.update(Json(missed.request));
    json["unexpected"] = missed.unexpected;
    json["blocked"] = missed.blocked;
    json["in_the_way"] = missed.in_the_way;
    json["off_plan"] = lane.off_plan_at.has_value();
    image["missed_sites"].push_back(std::move(json));
  }
  image["blockers"] = ordered_json::array();
  for (const Overstay& overstay : findings.overstays) {
    ordered_json json = {{"thread", Hexadecimal(findings.lanes[overstay.lane].path)},
                         {"allocation", overstay.allocation}};
    json.update(Json(overstay.request));
    json["blocked"] = overstay.blocked;
    json["freed_before_allocation"] = nullptr;
    if (overstay.freed_before) json["freed_before_allocation"] = *overstay.freed_before;
    image["blockers"].push_back(std::move(json));
  }
}

}  // namespace reprise::cli

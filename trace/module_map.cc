#include "trace/module_map.h"

#include <algorithm>

#include "trace/spool_format.h"

namespace reprise::trace {

ModuleMap::ModuleMap(Recording& recording, std::vector<LoadedModule> modules, uint64_t stack_base)
    : recording_(recording), loaded_(std::move(modules)), stack_base_(stack_base) {
  AddRecords(0);
  ForgetWords();
}

void ModuleMap::ForgetWords() {
  known_words_.clear();
  latest_words_.fill({});
  latest_words_[0].word = 1;  // a word of another entry, as 0 is of the others
}

// Those from `first` on stand in loaded_ and nowhere else.
void ModuleMap::AddRecords(size_t first) {
  std::stable_sort(loaded_.begin() + static_cast<ptrdiff_t>(first), loaded_.end(),
                   [](const auto& a, const auto& b) { return a.epoch < b.epoch; });
  for (size_t i = first; i < loaded_.size(); ++i) {
    const Module& module = loaded_[i].module;
    const auto [found, added] = known_.emplace(std::pair(module.path, module.build_id),
                                               static_cast<uint32_t>(recording_.modules.size()));
    if (added) recording_.modules.push_back(module);
    module_index_.push_back(found->second);
  }
}

bool ModuleMap::Add(std::vector<LoadedModule> modules) {
  const size_t first = loaded_.size();
  for (LoadedModule& module : modules) {
    const bool in_order = first == 0 || module.epoch >= loaded_[first - 1].epoch;
    const auto unknown = unknown_.lower_bound(module.begin);
    const bool named = unknown != unknown_.end() && *unknown < module.end;
    if (!in_order || module.epoch <= epoch_ || named) return false;
    loaded_.push_back(std::move(module));
  }
  AddRecords(first);
  return true;
}

void ModuleMap::Activate(uint32_t loaded) {
  const LoadedModule& module = loaded_[loaded];
  if (module.begin >= module.end) return;
  // Whatever lay there is gone.
  auto other = active_.lower_bound(module.begin);
  if (other != active_.begin() && loaded_[std::prev(other)->second].end > module.begin) --other;
  while (other != active_.end() && other->first < module.end) other = active_.erase(other);
  active_.emplace(module.begin, loaded);
  ForgetWords();
}

uint32_t ModuleMap::Find(uint64_t address) const {
  auto found = active_.upper_bound(address);
  if (found != active_.begin() && loaded_[(--found)->second].end > address) return found->second;
  // A record may have been written a little after the first event that needed it.
  for (size_t i = next_; i < loaded_.size(); ++i) {
    if (address >= loaded_[i].begin && address < loaded_[i].end) return static_cast<uint32_t>(i);
  }
  return kNone;
}

void ModuleMap::AdvanceTo(uint64_t epoch) {
  while (next_ < loaded_.size() && loaded_[next_].epoch <= epoch) {
    Activate(static_cast<uint32_t>(next_++));
  }
}

Frame ModuleMap::FrameAt(uint64_t address) {
  const uint32_t loaded = Find(address);
  if (loaded == kNone) {
    unknown_.insert(address);
    return {kNone, address};
  }
  return {module_index_[loaded], address - loaded_[loaded].module.base};
}

void ModuleMap::DefineStack(uint64_t number, std::span<const uint64_t> addresses, uint64_t epoch) {
  if (addresses.empty() || number >= kSpoolMostStacks) return;
  AdvanceTo(epoch);
  epoch_ = epoch;
  std::vector<Frame> frames;
  std::vector<std::pair<uint32_t, uint64_t>> key;
  for (const uint64_t address : addresses.subspan(1)) {
    frames.push_back(FrameAt(address));
    key.emplace_back(frames.back().module, frames.back().offset);
  }
  const auto [found, added] =
      callers_.try_emplace(std::move(key), static_cast<uint32_t>(recording_.stacks.size()));
  if (added) recording_.stacks.push_back(std::move(frames));
  stacks_[number] = {FrameAt(addresses[0]), found->second};
}

uint32_t ModuleMap::LookUp(uint64_t site_word) {
  LatestWord& latest = latest_words_[site_word % latest_words_.size()];
  const auto known = known_words_.find(site_word);
  if (known != known_words_.end()) {
    latest = {site_word, known->second};
    return known->second;
  }

  const uint64_t address = site_word & ((uint64_t{1} << kSpoolSiteBits) - 1);
  Stack stack;
  if (stack_base_ != 0 && address - stack_base_ < kSpoolMostStacks) {
    const auto defined = stacks_.find(address - stack_base_);
    if (defined == stacks_.end()) return kNone;
    stack = defined->second;
  } else {
    stack.top = FrameAt(address);
  }
  const Site site{.module = stack.top.module,
                  .offset = stack.top.offset,
                  .depth = static_cast<uint32_t>(site_word >> kSpoolSiteBits),
                  .stack = stack.callers};
  const std::tuple key(uint64_t{site.module} << 32 | site.depth, site.offset, site.stack);
  const auto [found, added] = sites_.emplace(key, static_cast<uint32_t>(recording_.sites.size()));
  if (added) recording_.sites.push_back(site);
  known_words_.emplace(site_word, found->second);
  latest = {site_word, found->second};
  return found->second;
}

}  // namespace reprise::trace

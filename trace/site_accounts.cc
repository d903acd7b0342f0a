#include "trace/site_accounts.h"

#include <algorithm>
#include <tuple>
#include <utility>

namespace reprise::trace {

SiteAccountsBuilder::Load& SiteAccountsBuilder::At(uint32_t site) {
  const size_t entry = site == kNone ? 0 : size_t{site} + 1;
  if (place_of_.size() <= entry) {
    place_of_.resize(std::max(entry + 1, place_of_.size() * 2), kNone);
  }
  uint32_t& place = place_of_[entry];
  if (place == kNone) {
    const SitePlace where = site == kNone ? PlaceOfNone() : PlaceOf(recording_.sites[site]);
    const auto [known, added] = places_.try_emplace(where, static_cast<uint32_t>(loads_.size()));
    if (added) loads_.push_back({.account = {.site = site}});
    place = known->second;
  }
  return loads_[place];
}

void SiteAccountsBuilder::ReadPeak() {
  peak_read_ = true;
  for (Load& load : loads_) {
    load.account.peak_bytes = load.bytes;
    load.account.peak_blocks = load.blocks;
  }
}

void SiteAccountsBuilder::Add(const Event& event) {
  if (event.kind == EventKind::kUsable || event.kind == EventKind::kUnmatchedFree) return;
  if (!peak_read_ && event.index > peak_event_) ReadPeak();
  Load& load = At(event.site);
  if (event.kind == EventKind::kAllocate) {
    ++load.blocks;
    load.bytes += event.size;
    load.births += event.birth;
    ++load.account.blocks;
    load.account.bytes += event.size;
    if (load.bytes > load.account.most_bytes) {
      load.account.most_bytes = load.bytes;
      load.account.most_blocks = load.blocks;
    }
    return;
  }
  --load.blocks;
  load.bytes -= event.size;
  load.births -= event.birth;
  load.account.lifetimes += event.index - event.birth;
  if (event.index == event.birth + 1) ++load.account.short_lived;
}

std::vector<SiteAccount> SiteAccountsBuilder::Finish() {
  if (!peak_read_) ReadPeak();
  std::vector<SiteAccount> accounts;
  for (const auto& [where, place] : places_) {
    const Load& load = loads_[place];
    SiteAccount account = load.account;
    account.lifetimes += load.blocks * recording_.events - load.births;
    account.end_bytes = load.bytes;
    account.end_blocks = load.blocks;
    accounts.push_back(account);
  }
  std::stable_sort(accounts.begin(), accounts.end(), [](const auto& a, const auto& b) {
    return std::tie(a.peak_bytes, a.bytes) > std::tie(b.peak_bytes, b.bytes);
  });
  return accounts;
}

}  // namespace reprise::trace

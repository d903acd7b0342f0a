// Resolves the code addresses and call stacks of a spool, where a library may be unloaded and
// another one take its addresses: a module record counts from its epoch on.
#ifndef REPRISE_TRACE_MODULE_MAP_H_
#define REPRISE_TRACE_MODULE_MAP_H_

#include <array>
#include <cstdint>
#include <map>
#include <set>
#include <span>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "trace/recording.h"

namespace reprise::trace {

// A module record as the spool holds it.
struct LoadedModule {
  Module module;
  uint64_t begin = 0, end = 0;  // half-open range of its addresses
  uint64_t epoch = 0;           // from when on
};

// Adds modules (one per path and build id) and sites to `recording`, which must outlive it.
class ModuleMap {
 public:
  // `stack_base`: SpoolHeader::stack_base.
  ModuleMap(Recording& recording, std::vector<LoadedModule> modules, uint64_t stack_base = 0);

  // Records that were written since. False: what was resolved before would have been otherwise, had
  // they been known, or the modules in another order.
  bool Add(std::vector<LoadedModule> modules);

  // The index of the site that a spool's site word names at `epoch`; kNone when it names a stack
  // that is not known. Epochs must not decrease, neither here nor below.
  uint32_t Resolve(uint64_t site_word, uint64_t epoch) {
    if (next_ < loaded_.size() && loaded_[next_].epoch <= epoch) AdvanceTo(epoch);
    epoch_ = epoch;
    const LatestWord& latest = latest_words_[site_word % latest_words_.size()];
    return latest.word == site_word ? latest.site : LookUp(site_word);
  }

  // The stack of that number: a return address, then those of its callers.
  void DefineStack(uint64_t number, std::span<const uint64_t> addresses, uint64_t epoch);

 private:
  // What a stack's number stands for.
  struct Stack {
    Frame top;
    uint32_t callers = kNone;  // index into Recording::stacks
  };
  // The latest of some site words that are known.
  struct LatestWord {
    uint64_t word = 0;
    uint32_t site = kNone;
  };
  void AddRecords(size_t first);
  void ForgetWords();
  uint32_t LookUp(uint64_t site_word);
  void AdvanceTo(uint64_t epoch);
  void Activate(uint32_t loaded);
  Frame FrameAt(uint64_t address);
  uint32_t Find(uint64_t address) const;  // index into loaded_, kNone

  Recording& recording_;
  std::vector<LoadedModule> loaded_;                               // by epoch
  std::map<std::pair<std::string, std::string>, uint32_t> known_;  // into recording.modules
  std::vector<uint32_t> module_index_;   // of each loaded_, into recording.modules
  size_t next_ = 0;                      // of loaded_: not active yet
  std::map<uint64_t, uint32_t> active_;  // by begin; disjoint
  uint64_t epoch_ = 0;                   // the latest
  std::set<uint64_t> unknown_;           // addresses that lay in no module
  absl::flat_hash_map<uint64_t, uint32_t> known_words_;
  std::array<LatestWord, 1024> latest_words_;
  absl::flat_hash_map<std::tuple<uint64_t, uint64_t, uint32_t>, uint32_t> sites_;
  uint64_t stack_base_;
  absl::flat_hash_map<uint64_t, Stack> stacks_;  // by number
  absl::flat_hash_map<std::vector<std::pair<uint32_t, uint64_t>>, uint32_t> callers_;
};

}  // namespace reprise::trace

#endif  // REPRISE_TRACE_MODULE_MAP_H_

// What the events of a compact trace name by numbers: modules, threads, stacks and call sites.
#ifndef REPRISE_TRACE_COMPACT_DEFINITIONS_H_
#define REPRISE_TRACE_COMPACT_DEFINITIONS_H_

#include <cstddef>
#include <cstdint>
#include <tuple>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "trace/compact_format.h"
#include "trace/recording.h"
#include "trace/varint.h"

namespace reprise::trace {

// A call site of the file: a site, and how it allocates.
struct CompactCallSite {
  uint32_t site = kNone;
  AllocationKind kind = AllocationKind::kMalloc;
  uint8_t log2_alignment = 0;
};

// Puts definitions into the tables of a recording. Some may be lost: what is named and never
// defined is there, and empty.
class CompactDefinitions {
 public:
  explicit CompactDefinitions(Recording& recording) : recording_(recording) {}

  // Whether a chunk of this type holds definitions.
  static bool Are(ChunkType type);
  // Reads such a chunk. False: it is not what its type says, or holds more than limits.h allows.
  bool Read(ChunkType type, ByteReader& reader);

  // The index of the recording's thread that the file numbers so; kNone: there are too many.
  uint32_t Thread(uint64_t number);
  // Null: its definition is lost.
  const CompactCallSite* CallSite(uint64_t number) const {
    const auto found = call_sites_.find(number);
    return found == call_sites_.end() ? nullptr : &found->second;
  }

  // The range of numbers that a chunk of definitions holds; every entry takes a byte at least.
  static bool ReadRange(ByteReader& reader, uint64_t& first, uint64_t& end);

 private:
  // Numbers of the file as indices of the recording.
  using Numbers = absl::flat_hash_map<uint64_t, uint32_t>;
  template <typename Entry>
  static uint32_t IndexOf(uint64_t number, size_t most, Numbers& numbers,
                          std::vector<Entry>& entries);
  uint32_t Module(uint64_t number);
  uint32_t Stack(uint64_t number);
  bool ReadModules(ByteReader& reader);
  bool ReadThreadNames(ByteReader& reader);
  bool ReadThreads(ByteReader& reader);
  bool ReadStacks(ByteReader& reader);
  bool ReadSites(ByteReader& reader);
  uint32_t Intern(const Site& site);

  Recording& recording_;
  Numbers modules_, threads_, stacks_;
  absl::flat_hash_map<uint64_t, CompactCallSite> call_sites_;
  absl::flat_hash_map<std::tuple<uint64_t, uint64_t, uint32_t>, uint32_t> sites_;
};

}  // namespace reprise::trace

#endif  // REPRISE_TRACE_COMPACT_DEFINITIONS_H_

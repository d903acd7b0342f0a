#include "trace/compact_definitions.h"

#include <utility>

#include "trace/limits.h"

namespace reprise::trace {

bool CompactDefinitions::Are(ChunkType type) {
  return type == ChunkType::kModules || type == ChunkType::kThreads ||
         type == ChunkType::kThreadNames || type == ChunkType::kSites || type == ChunkType::kStacks;
}

bool CompactDefinitions::Read(ChunkType type, ByteReader& reader) {
  switch (type) {
    case ChunkType::kModules:
      return ReadModules(reader);
    case ChunkType::kThreads:
      return ReadThreads(reader);
    case ChunkType::kThreadNames:
      return ReadThreadNames(reader);
    case ChunkType::kSites:
      return ReadSites(reader);
    case ChunkType::kStacks:
      return ReadStacks(reader);
    default:
      return false;
  }
}

template <typename Entry>
uint32_t CompactDefinitions::IndexOf(uint64_t number, size_t most, Numbers& numbers,
                                     std::vector<Entry>& entries) {
  const auto found = numbers.find(number);
  if (found != numbers.end()) return found->second;
  if (entries.size() >= most) return kNone;
  const auto index = static_cast<uint32_t>(entries.size());
  numbers.emplace(number, index);
  entries.emplace_back();
  return index;
}

uint32_t CompactDefinitions::Thread(uint64_t number) {
  return IndexOf(number, kMostThreads, threads_, recording_.threads);
}

uint32_t CompactDefinitions::Module(uint64_t number) {
  return IndexOf(number, kMostModules, modules_, recording_.modules);
}

uint32_t CompactDefinitions::Stack(uint64_t number) {
  return IndexOf(number, kMostStacks, stacks_, recording_.stacks);
}

bool CompactDefinitions::ReadRange(ByteReader& reader, uint64_t& first, uint64_t& end) {
  first = reader.Varint();
  end = first + reader.Varint();
  return reader.ok() && end >= first && end <= kNone;
}

bool CompactDefinitions::ReadModules(ByteReader& reader) {
  uint64_t first, end;
  if (!ReadRange(reader, first, end)) return false;
  for (uint64_t number = first; number < end; ++number) {
    trace::Module module;
    module.path = reader.Text();
    module.build_id = reader.Text();
    module.base = reader.Varint();
    const uint32_t index = Module(number);
    if (!reader.ok() || index == kNone) return false;
    recording_.modules[index] = std::move(module);
  }
  return reader.empty();
}

bool CompactDefinitions::ReadThreadNames(ByteReader& reader) {
  uint64_t first, end;
  if (!ReadRange(reader, first, end)) return false;
  for (uint64_t number = first; number < end; ++number) {
    std::string name = reader.Text();
    const uint32_t index = Thread(number);
    if (!reader.ok() || index == kNone) return false;
    recording_.threads[index].name = std::move(name);
  }
  return reader.empty();
}

bool CompactDefinitions::ReadThreads(ByteReader& reader) {
  uint64_t first, end;
  if (!ReadRange(reader, first, end)) return false;
  for (uint64_t number = first; number < end; ++number) {
    const uint64_t path = reader.Varint();
    const uint64_t parent = reader.Varint();
    if (!reader.ok()) return false;
    const uint32_t index = Thread(number);
    const uint32_t parent_index = parent == 0 ? kNone : Thread(parent - 1);
    if (index == kNone || (parent != 0 && parent_index == kNone)) return false;
    recording_.threads[index].path = path;
    recording_.threads[index].parent = parent_index;
  }
  return reader.empty();
}

bool CompactDefinitions::ReadStacks(ByteReader& reader) {
  uint64_t first, end;
  if (!ReadRange(reader, first, end)) return false;
  for (uint64_t number = first; number < end; ++number) {
    std::vector<Frame> frames;
    const uint64_t count = reader.Varint();
    if (count > kMostFrames) return false;
    for (uint64_t i = 0; i < count && reader.ok(); ++i) {
      const uint64_t module = reader.Varint();
      const uint64_t offset = reader.Varint();
      const uint32_t index = module == 0 ? kNone : Module(module - 1);
      if (!reader.ok() || (module != 0 && index == kNone)) return false;
      frames.push_back({index, offset});
    }
    const uint32_t index = Stack(number);
    if (!reader.ok() || index == kNone) return false;
    recording_.stacks[index] = std::move(frames);
  }
  return reader.empty();
}

bool CompactDefinitions::ReadSites(ByteReader& reader) {
  uint64_t first, end;
  if (!ReadRange(reader, first, end)) return false;
  for (uint64_t number = first; number < end; ++number) {
    const uint64_t flags = reader.Varint();
    const uint64_t module = reader.Varint();
    Site site;
    site.offset = reader.Varint();
    site.depth = static_cast<uint32_t>(reader.Varint());
    const uint64_t stack = (flags >> 11 & 1) != 0 ? reader.Varint() : 0;
    if (!reader.ok()) return false;
    CompactCallSite call;
    call.kind = static_cast<AllocationKind>(flags & 3);
    call.log2_alignment = static_cast<uint8_t>(flags >> 2);
    if (call.log2_alignment >= kSizeBits) return false;
    if ((flags >> 10 & 1) != 0) {
      const bool stacked = (flags >> 11 & 1) != 0;
      if (module != 0) site.module = Module(module - 1);
      if (stacked) site.stack = Stack(stack);
      if ((module != 0 && site.module == kNone) || (stacked && site.stack == kNone)) return false;
      call.site = Intern(site);
      if (call.site == kNone) return false;
    }
    call_sites_[number] = call;
  }
  return reader.empty();
}

uint32_t CompactDefinitions::Intern(const Site& site) {
  const std::tuple key(uint64_t{site.module} << 32 | site.depth, site.offset, site.stack);
  const auto [found, added] = sites_.emplace(key, static_cast<uint32_t>(recording_.sites.size()));
  if (!added) return found->second;
  if (recording_.sites.size() >= kMostSites) return kNone;
  recording_.sites.push_back(site);
  return found->second;
}

}  // namespace reprise::trace

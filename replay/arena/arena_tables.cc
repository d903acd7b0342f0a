#include "replay/arena/arena_tables.h"

#include <errno.h>
#include <sys/mman.h>

namespace reprise::replay {
namespace {

uint64_t UpperBytes(uint64_t arena_bytes) {
  return (OrderedBits::UpperBytes(arena_bytes / kHeapUnit) + 2 * kPage) & ~(kPage - 1);
}

}  // namespace

bool MakeWritable(const void* begin, uint64_t bytes) {
  const int before = errno;
  const uint64_t first = reinterpret_cast<uint64_t>(begin) & ~(kPage - 1);
  const uint64_t end = (reinterpret_cast<uint64_t>(begin) + bytes + kPage - 1) & ~(kPage - 1);
  const bool done =
      mprotect(reinterpret_cast<void*>(first), end - first, PROT_READ | PROT_WRITE) == 0;
  errno = before;
  return done;
}

void GiveAddresses(const char* begin, const char* end) {
  const uint64_t first = (reinterpret_cast<uint64_t>(begin) + kPage - 1) & ~(kPage - 1);
  const uint64_t last = reinterpret_cast<uint64_t>(end) & ~(kPage - 1);
  const int before = errno;
  if (first < last) munmap(reinterpret_cast<void*>(first), last - first);
  errno = before;
}

uint64_t ArenaTables::BytesFor(uint64_t arena_bytes) {
  uint64_t bytes = UpperBytes(arena_bytes);
  for (int table = 0; table < kTables; ++table) bytes += TableBytes(table, arena_bytes);
  return bytes;
}

bool ArenaTables::Attach(char* memory, uint64_t arena_bytes) {
  char* upper = memory;
  memory += UpperBytes(arena_bytes);
  for (int table = 0; table < kTables; ++table) {
    at_[table] = memory + kPage;
    memory += TableBytes(table, arena_bytes);
  }
  blocks_.Attach(at_[kBlocks] - sizeof(BlockMap::Unit));
  regions_ = reinterpret_cast<Region*>(at_[kRegions]);
  starts_.Attach(at_[kStarts], upper, arena_bytes / kHeapUnit);
  free_.Attach(reinterpret_cast<uint64_t*>(at_[kFree]));
  live_.Attach(at_[kLive]);
  resident_.Attach(reinterpret_cast<uint64_t*>(at_[kResident]));
  return MakeWritable(upper, UpperBytes(arena_bytes));
}

bool ArenaTables::Cover(uint64_t begin, uint64_t end) {
  for (int table = 0; table < kTables; ++table) {
    const uint64_t first = begin >> kShift[table];
    const uint64_t last = end >> kShift[table];
    if (!MakeWritable(at_[table] + first - kAround, last - first + 2 * kAround)) return false;
  }
  return true;
}

void ArenaTables::Uncover(uint64_t begin, uint64_t end) {
  for (int table = 0; table < kTables; ++table) {
    GiveAddresses(at_[table] + (begin >> kShift[table]) + kAround,
                  at_[table] + (end >> kShift[table]) - kAround);
  }
}

}  // namespace reprise::replay

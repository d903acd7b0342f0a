#include "interpose/process/side_heap.h"

#include "base/page.h"
#include "base/system_call.h"
#include "interpose/process/address_map.h"
#include "interpose/process/process.h"
#include "interpose/process/shared_page.h"

namespace reprise::interpose {

alignas(64) char early_side_blocks[kEarlySideBytes];

namespace {

constexpr uint64_t kPage = base::kPageBytes;
constexpr uint64_t kMagic = 0x5245505249534531;

// In front of every block, on the same page as the block's first byte or the page before.
struct Header {
  uint64_t magic;
  uint64_t pages_begin;
  uint64_t pages_bytes;
  uint64_t usable;
};

REPRISE_SHARED_PAGE uint64_t early_used;  // of early_side_blocks

// The next unused page of the range. It only grows: 64 GiB of addresses for blocks that are rare.
REPRISE_SHARED_PAGE uint64_t next_page;
constexpr uint64_t kBeingCut = uint64_t{1} << 40;  // it comes back at once

// What was given back may be somebody else's by now.
bool MapPages(uint64_t begin, uint64_t bytes) {
  if (!process.given_back) return MapMemory(begin, bytes) != nullptr;
  const long mapped = SystemCall(
      SYS_mmap, static_cast<long>(begin), static_cast<long>(bytes), PROT_READ | PROT_WRITE,
      MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_FIXED_NOREPLACE, -1, 0);
  return !Failed(mapped);
}

Header* HeaderOf(const void* pointer) {
  const uint64_t address = reinterpret_cast<uint64_t>(pointer);
  if (address % 16 != 0) return nullptr;
  auto* header = reinterpret_cast<Header*>(address - sizeof(Header));
  const bool is_early = pointer >= early_side_blocks + sizeof(Header) &&
                        pointer < early_side_blocks + kEarlySideBytes;
  const bool is_mapped =
      process.reserved && kSideHeap.Contains(address) &&
      address - kSideHeap.begin < __atomic_load_n(&next_page, __ATOMIC_RELAXED) * kPage;
  if (!is_early && !is_mapped) return nullptr;
  return header->magic == kMagic ? header : nullptr;
}

}  // namespace

void* SideAllocate(size_t bytes, size_t alignment) {
  if (alignment < 16) alignment = 16;
  if (bytes > kSideHeap.bytes / 2 || alignment > kGiB) return nullptr;
  const uint64_t usable = (bytes + 15) & ~uint64_t{15};
  if (bytes + alignment <= 2048 || (!process.reserved && bytes + alignment <= kEarlySideBytes)) {
    const uint64_t need = usable + sizeof(Header) + alignment;
    const uint64_t at = __atomic_fetch_add(&early_used, need, __ATOMIC_RELAXED);
    if (at + need <= kEarlySideBytes) {
      const uint64_t start = reinterpret_cast<uint64_t>(early_side_blocks) + at + sizeof(Header);
      const uint64_t block = (start + alignment - 1) & ~(alignment - 1);
      *reinterpret_cast<Header*>(block - sizeof(Header)) = {kMagic, 0, 0, usable};
      return reinterpret_cast<void*>(block);
    }
  }
  if (!process.reserved) return nullptr;  // whatever lies there is the program's
  const uint64_t lead = alignment > sizeof(Header) ? alignment : sizeof(Header);
  const uint64_t pages = (usable + lead + kPage - 1) / kPage;
  const uint64_t slack = alignment > kPage ? alignment / kPage : 0;
  uint64_t first;
  do {
    first = __atomic_fetch_add(&next_page, pages + slack, __ATOMIC_ACQUIRE);
  } while (first >= kBeingCut);
  if ((first + pages + slack) * kPage > kSideHeap.bytes) return nullptr;
  uint64_t begin = kSideHeap.begin + first * kPage;
  const uint64_t block = (begin + sizeof(Header) + alignment - 1) & ~(alignment - 1);
  begin = (block - sizeof(Header)) & ~(kPage - 1);
  if (!MapPages(begin, pages * kPage)) return nullptr;
  *reinterpret_cast<Header*>(block - sizeof(Header)) = {kMagic, begin, pages * kPage, usable};
  return reinterpret_cast<void*>(block);
}

__attribute__((noinline, cold)) bool LiesInSideHeap(const void* pointer) {
  const auto address = reinterpret_cast<uint64_t>(pointer);
  return address - reinterpret_cast<uint64_t>(early_side_blocks) < kEarlySideBytes ||
         (process.reserved && kSideHeap.Contains(address));
}

void CutSideHeap() {
  const SignalBlock block;
  const uint64_t pages = __atomic_exchange_n(&next_page, kBeingCut, __ATOMIC_ACQ_REL);
  const uint64_t begin = kSideHeap.begin + pages * kPage;
  if (begin < kSideHeap.begin + kSideHeap.bytes) {
    SystemCall(SYS_munmap, static_cast<long>(begin),
               static_cast<long>(kSideHeap.begin + kSideHeap.bytes - begin));
  }
  process.given_back = true;
  __atomic_store_n(&next_page, pages, __ATOMIC_RELEASE);
}

__attribute__((hot)) void SideFree(void* pointer) {
  Header* header = HeaderOf(pointer);
  if (header == nullptr || header->pages_bytes == 0) return;
  // The pages read as zero from now on, so a second free of the block finds no header. The
  // addresses are not used again.
  Advise(reinterpret_cast<void*>(header->pages_begin), header->pages_bytes, MADV_DONTNEED);
}

size_t SideUsable(const void* pointer) {
  const Header* header = HeaderOf(pointer);
  return header != nullptr ? header->usable : 0;
}

}  // namespace reprise::interpose

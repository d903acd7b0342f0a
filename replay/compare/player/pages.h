// Which pages have ever held a live block: one bit per page of the whole address space, in a sparse
// mapping (a page of bits covers 128 MiB of addresses). Hook-safe; any thread may mark.
#ifndef REPRISE_REPLAY_COMPARE_PLAYER_PAGES_H_
#define REPRISE_REPLAY_COMPARE_PLAYER_PAGES_H_

#include <stddef.h>
#include <stdint.h>
#include <sys/mman.h>

namespace reprise::replay {

inline constexpr int kPageBits = 12;
inline constexpr uint64_t kPageBytes = 1 << kPageBits;

class Pages {
 public:
  // False when the system refuses the mapping.
  bool Map() {
    void* mapping = mmap(nullptr, kMapBytes, PROT_READ | PROT_WRITE,
                         MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (mapping == MAP_FAILED) return false;
    // A huge page here would count as two megabytes of somebody else's memory.
    madvise(mapping, kMapBytes, MADV_NOHUGEPAGE);
    words_ = static_cast<uint64_t*>(mapping);
    return true;
  }

  // Marks the page of `address`; true when it had not been marked before.
  bool Mark(uint64_t address) {
    const uint64_t page = address >> kPageBits;
    const uint64_t bit = uint64_t{1} << (page & 63);
    uint64_t* word = words_ + (page >> 6);
    if ((__atomic_load_n(word, __ATOMIC_RELAXED) & bit) != 0) return false;
    return (__atomic_fetch_or(word, bit, __ATOMIC_RELAXED) & bit) == 0;
  }

 private:
  static constexpr int kAddressBits = 48;
  static constexpr size_t kMapBytes = size_t{1} << (kAddressBits - kPageBits - 3);

  uint64_t* words_ = nullptr;
};

}  // namespace reprise::replay

#endif  // REPRISE_REPLAY_COMPARE_PLAYER_PAGES_H_

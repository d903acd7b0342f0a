// Which pages hold, or held, a live block: one bit per page of the whole address space, in a sparse
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
    chunks_ = reinterpret_cast<Chunks*>(static_cast<char*>(mapping) + kWordBytes);
    return true;
  }

  // Marks the page of `address`; true when it had not been marked before.
  bool Mark(uint64_t address) {
    const uint64_t page = address >> kPageBits;
    const uint64_t bit = uint64_t{1} << (page & 63);
    uint64_t* word = words_ + (page >> 6);
    if ((__atomic_load_n(word, __ATOMIC_RELAXED) & bit) != 0) return false;
    const uint64_t before = __atomic_fetch_or(word, bit, __ATOMIC_RELAXED);
    if (before == 0) Note(page / kChunkPages);
    return (before & bit) == 0;
  }

  // Calls keep(first page, marks of it and the 63 behind it) wherever there are marks: those that
  // it returns stay. By one thread, while no other marks.
  template <typename Keep>
  void Revise(Keep keep) const {
    for (uint64_t i = 0; i < chunks_->count; ++i) {
      uint64_t page = chunks_->numbers[i] * kChunkPages;
      for (const uint64_t end = page + kChunkPages; page < end; page += 64) {
        uint64_t& word = words_[page >> 6];
        if (word != 0) word = keep(page, word);
      }
    }
  }

 private:
  static constexpr int kAddressBits = 48;
  static constexpr uint64_t kPages = uint64_t{1} << (kAddressBits - kPageBits);
  static constexpr size_t kWordBytes = kPages / 8;
  static constexpr uint64_t kChunkPages = kPageBytes * 8;  // that a page of bits tells of
  // Which pages of bits have been written to.
  struct Chunks {
    uint64_t count;
    uint64_t noted[kPages / kChunkPages / 64];
    uint64_t numbers[kPages / kChunkPages];
  };
  static constexpr size_t kMapBytes = kWordBytes + sizeof(Chunks);

  void Note(uint64_t chunk) const {
    const uint64_t bit = uint64_t{1} << (chunk & 63);
    if ((__atomic_fetch_or(&chunks_->noted[chunk >> 6], bit, __ATOMIC_RELAXED) & bit) != 0) return;
    chunks_->numbers[__atomic_fetch_add(&chunks_->count, 1, __ATOMIC_RELAXED)] = chunk;
  }

  uint64_t* words_ = nullptr;
  Chunks* chunks_ = nullptr;
};

}  // namespace reprise::replay

#endif  // REPRISE_REPLAY_COMPARE_PLAYER_PAGES_H_

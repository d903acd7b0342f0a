// A range of addresses divided into units of one size. Runs of units are found by RW_malloc.
//
// Two bits per unit are all the metadata: `used`, and `end` for the last unit of a run. So a block
// has no header, and its length is the distance to the next end. Only the owner of a run changes
// its bits in `ends`.
//
// The zone grows: only its first `active` words are searched, and it becomes longer when nothing is
// found there. All operations are lock-free and may be interrupted by a signal handler or a fork.
#ifndef REPRISE_RANDOM_WALK_PRELOAD_ZONE_H_
#define REPRISE_RANDOM_WALK_PRELOAD_ZONE_H_

#include <stddef.h>
#include <stdint.h>
#include <sys/mman.h>

#include "random_walk/host_warp.h"
#include "random_walk/run_walk.h"

namespace reprise::random_walk {

class Zone {
 public:
  // The lanes of a narrow warp read 512 units at once, those of a wide one 2,048.
  using Narrow = HostWarp<8>;
  using Wide = HostWarp<32>;

  // `memory`: `words` * 64 units without access rights, aligned to a page. The bitmaps are zero.
  void start(unsigned char* memory, uint64_t* used, uint64_t* ends, uint32_t unit_bytes,
             uint32_t words) {
    memory_ = memory;
    used_ = used;
    ends_ = ends;
    unit_bytes_ = unit_bytes;
    most_words_ = words;
  }

  bool holds(const void* block) const {
    return static_cast<uint64_t>(static_cast<const unsigned char*>(block) - memory_) <
           uint64_t{most_words_} * 64 * unit_bytes_;
  }
  uint64_t units_of(size_t bytes) const { return bytes == 0 ? 1 : (bytes - 1) / unit_bytes_ + 1; }
  uint32_t unit_of(const void* block) const {
    return static_cast<uint32_t>(
        static_cast<uint64_t>(static_cast<const unsigned char*>(block) - memory_) / unit_bytes_);
  }
  void* address(uint32_t unit) const { return memory_ + uint64_t{unit} * unit_bytes_; }
  uint32_t unit_bytes() const { return unit_bytes_; }

  // Runs of `units` units for all lanes of `need`, at most. walk.first says which; kNoPage for all
  // of them: out of memory. They have no ends yet.
  template <class Warp>
  void find(Warp& warp, RunWalk<Warp>& walk, LaneMask need, uint32_t units) {
    warp.each(Warp::kAll, [&](unsigned lane) { walk.units[lane] = units; });
    for (;;) {
      const PoolView<uint64_t> pool = view();
      if (pool.words > 0) find_runs(warp, pool, need, walk);
      if (pool.words > 0 && walk.need != need) return;
      if (!grow(pool.words, units)) {
        warp.each(Warp::kAll, [&](unsigned lane) { walk.first[lane] = kNoPage; });
        return;
      }
      walk.region = pool.words / kRegionWords * kRegionWords;
      walk.base = pool.words;
      walk.high = pool.words + 1;
    }
  }

  void set_end(uint32_t unit) { Narrow::fetch_or(&ends_[unit / 64], uint64_t{1} << unit % 64); }
  void clear_end(uint32_t unit) {
    Narrow::fetch_and(&ends_[unit / 64], ~(uint64_t{1} << unit % 64));
  }

  // Units of the run that begins with `unit`.
  uint32_t length(uint32_t unit) const {
    uint64_t word = Narrow::load(&ends_[unit / 64]) >> unit % 64;
    if (word != 0) return low_zeros(word) + 1;
    for (uint32_t index = unit / 64 + 1; index < most_words_; ++index) {
      word = Narrow::load(&ends_[index]);
      if (word != 0) return index * 64 + low_zeros(word) - unit + 1;
    }
    return 1;  // no run begins here
  }

  void release(uint32_t unit, uint32_t units) {
    clear_end(unit + units - 1);
    release_bits(unit, units);
  }
  void release_bits(uint32_t unit, uint32_t units) {
    if (units > 0) free_run<Narrow>(view(), unit, units);
  }

  // Gives back what lies behind the first `units` units of a run of `length` units.
  void shrink(uint32_t unit, uint32_t length, uint32_t units) {
    set_end(unit + units - 1);
    clear_end(unit + length - 1);
    release_bits(unit + units, length - units);
  }
  // Makes a run of `length` units longer where it is. False: what lies behind it is used.
  bool extend(uint32_t unit, uint32_t length, uint32_t units);

 private:
  PoolView<uint64_t> view() const {
    PoolView<uint64_t> pool;
    pool.used = used_;
    pool.words = __atomic_load_n(&active_words_, __ATOMIC_ACQUIRE);
    pool.pages = pool.words * 64;
    pool.set_page_bytes(unit_bytes_);
    pool.probes = 4;  // a walk of a thread goes on where the last one ended: mostly one is enough
    return pool;
  }
  bool grow(uint32_t words, uint32_t units);

  unsigned char* memory_ = nullptr;
  uint64_t* used_ = nullptr;
  uint64_t* ends_ = nullptr;
  uint32_t unit_bytes_ = 1;
  uint32_t most_words_ = 0;
  uint32_t active_words_ = 0;
};

}  // namespace reprise::random_walk

#endif  // REPRISE_RANDOM_WALK_PRELOAD_ZONE_H_

// The peers of RW on a device: a pool with a queue, and output behind one counter.
#ifndef REPRISE_WORKLOADS_BENCH_DEVICE_QUEUE_CUH_
#define REPRISE_WORKLOADS_BENCH_DEVICE_QUEUE_CUH_

#include <cstdint>

// A ring of page numbers between a head and a tail, both advanced by an atomic addition: one for
// each page that is taken, one for each that is handed back.
struct QueueView {
  static constexpr uint32_t kEmpty = 0xffffffffU;
  uint32_t* slots = nullptr;  // a power of 2 of them
  uint32_t mask = 0;
  unsigned* head = nullptr;
  unsigned* tail = nullptr;

  // kEmpty: out of pages. `position`: requests that were served before, and this one.
  __device__ uint32_t get_page(unsigned& position) const {
    const unsigned at = atomicAdd(head, 1U);
    position = at + 1;
    if (static_cast<int>(*static_cast<volatile unsigned*>(tail) - at) <= 0) {
      atomicSub(head, 1U);
      return kEmpty;
    }
    uint32_t page = atomicExch(&slots[at & mask], kEmpty);
    while (page == kEmpty) page = atomicExch(&slots[at & mask], kEmpty);  // its tail came first
    return page;
  }
  __device__ void free_page(uint32_t page) const {
    __threadfence();
    const unsigned at = atomicAdd(tail, 1U);
    while (atomicCAS(&slots[at & mask], kEmpty, page) != kEmpty) {
    }
  }
};

// Pages are never freed: the next one is behind the last one (the hash join's direct output).
struct CounterView {
  unsigned* next = nullptr;
  __device__ uint32_t get_page() const { return atomicAdd(next, 1U); }
};

#endif  // REPRISE_WORKLOADS_BENCH_DEVICE_QUEUE_CUH_

#include "cli/page_cost.h"

#include <sys/mman.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <cstddef>

#include "base/page.h"

namespace reprise::cli {

bool PagesAreDear() {
  constexpr size_t kPage = base::kPageBytes;
  constexpr size_t kPages = 4;
  constexpr auto kDear = std::chrono::microseconds(30);
  void* mapped =
      mmap(nullptr, kPages * kPage, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (mapped == MAP_FAILED) return false;
  auto* bytes = static_cast<volatile char*>(mapped);
  std::array<std::chrono::steady_clock::duration, 9> times{};
  for (auto& time : times) {
    const auto before = std::chrono::steady_clock::now();
    for (size_t page = 0; page < kPages; ++page) bytes[page * kPage] = 1;
    madvise(mapped, kPages * kPage, MADV_DONTNEED);
    time = std::chrono::steady_clock::now() - before;
  }
  munmap(mapped, kPages * kPage);
  std::nth_element(times.begin(), times.begin() + times.size() / 2, times.end());
  return times[times.size() / 2] > kDear;  // the median: other programs interrupt some of them
}

}  // namespace reprise::cli

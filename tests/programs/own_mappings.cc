// A mapping that is so large that it lies where reprise would have its own, in the old layout of
// addresses (setarch -L), and blocks of malloc behind it: nobody else writes there.
#include <pthread.h>
#include <sys/mman.h>

#include <cstdio>
#include <cstdlib>
#include <cstring>

namespace {

constexpr size_t kBytes = size_t{1} << 40;
constexpr size_t kStep = size_t{1} << 34;
constexpr size_t kPages = 64;  // at each step
constexpr size_t kPage = 4096;

void* Thread(void* argument) {
  void* volatile block = std::malloc(100);
  std::memset(block, 1, 100);
  std::free(block);
  return argument;
}

template <typename Visit>
void ForEachPage(unsigned char* mapping, Visit visit) {
  auto begin = (reinterpret_cast<size_t>(mapping) + kStep - 1) & ~(kStep - 1);
  for (; begin + kPages * kPage < reinterpret_cast<size_t>(mapping) + kBytes; begin += kStep) {
    for (size_t page = 0; page < kPages; ++page) {
      visit(*reinterpret_cast<unsigned char*>(begin + page * kPage));
    }
  }
}

}  // namespace

int main() {
  void* mapped = mmap(nullptr, kBytes, PROT_READ | PROT_WRITE,
                      MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (mapped == MAP_FAILED) return 77;
  auto* mapping = static_cast<unsigned char*>(mapped);
  ForEachPage(mapping, [](unsigned char& byte) { byte = 0x77; });
  for (int i = 0; i < 1000; ++i) {
    pthread_t thread;
    if (pthread_create(&thread, nullptr, Thread, nullptr) != 0) return 2;
    pthread_join(thread, nullptr);
  }
  size_t changed = 0;
  ForEachPage(mapping, [&](unsigned char& byte) { changed += byte != 0x77; });
  std::printf("bytes changed: %zu\n", changed);
  // Blocks that lie in mappings of their own grow and go.
  constexpr size_t kLong = 64 << 20;
  size_t wrong = 0;
  for (int i = 0; i < 4; ++i) {
    auto* block = static_cast<char*>(std::malloc(kLong));
    std::memset(block, i + 1, kPage);
    block = static_cast<char*>(std::realloc(block, 2 * kLong));
    for (size_t at = 0; at < kPage; ++at) wrong += block[at] != i + 1;
    std::free(block);
  }
  std::printf("wrong: %zu\n", wrong);
  return 0;
}

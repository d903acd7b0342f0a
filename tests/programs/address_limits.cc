// How much memory the program gets under a limit of addresses: one that it was given, or one that
// it gives itself, in this process and in a child. Prints MiB, in steps of 8, and goes on with
// blocks of all sizes, threads, and failing calls.
#include <pthread.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <vector>

namespace {

constexpr size_t kMiB = 1 << 20;

// Of malloc or of mmap, until the system refuses.
size_t CountMiB(bool mapped) {
  constexpr size_t kStep = 8 * kMiB;
  std::vector<void*> blocks;
  blocks.reserve(4096);
  for (;;) {
    void* block = mapped ? mmap(nullptr, kStep, PROT_READ | PROT_WRITE,
                                MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0)
                         : std::malloc(kStep);
    if (block == nullptr || block == MAP_FAILED || blocks.size() == 4096) break;
    blocks.push_back(block);
  }
  for (void* block : blocks) mapped ? void(munmap(block, kStep)) : std::free(block);
  return blocks.size() * kStep / kMiB;
}

void* Work(void*) {
  unsigned random = 1;
  std::vector<char*> blocks(64);
  size_t wrong = 0;
  for (int i = 0; i < 20000; ++i) {
    random = random * 1103515245 + 12345;
    char*& block = blocks[random >> 8 & 63];
    if (block != nullptr) wrong += block[0] != 7;
    std::free(block);
    const size_t size = 1 + (random >> 16) % (i % 500 == 0 ? 300000 : 3000);
    block = static_cast<char*>(std::malloc(size));
    if (block == nullptr) std::_Exit(3);
    std::memset(block, 7, size);
  }
  for (char* block : blocks) std::free(block);
  return reinterpret_cast<void*>(wrong);
}

size_t WorkInThreads() {
  size_t wrong = 0;
  pthread_t threads[3];
  for (pthread_t& thread : threads) {
    if (pthread_create(&thread, nullptr, Work, nullptr) != 0) return 1000;
  }
  for (pthread_t thread : threads) {
    void* result = nullptr;
    pthread_join(thread, &result);
    wrong += reinterpret_cast<size_t>(result);
  }
  return wrong;
}

void Show(const char* what) {
  const size_t mapped = CountMiB(true), allocated = CountMiB(false);
  std::printf("%s: %zu %zu\n", what, mapped, allocated);
  std::printf("wrong: %zu\n", WorkInThreads());
  std::fflush(stdout);
}

}  // namespace

// With an argument: the limit in MiB that the program gives itself.
int main(int count, char** words) {
  WorkInThreads();
  if (count < 2) return Show("given"), 0;
  rlimit limit{};
  getrlimit(RLIMIT_AS, &limit);
  limit.rlim_cur = std::strtoull(words[1], nullptr, 10) * kMiB;
  if (const pid_t child = fork(); child == 0) {
    setrlimit(RLIMIT_AS, &limit);
    Show("child");
    std::exit(0);
  } else {
    waitpid(child, nullptr, 0);
  }
  if (setrlimit(RLIMIT_AS, &limit) != 0) return 2;
  Show("own");
  setrlimit(RLIMIT_AS, &limit);
  if (const pid_t child = fork(); child == 0) {
    Show("forked");
    std::exit(0);
  } else {
    waitpid(child, nullptr, 0);
  }
  return 0;
}

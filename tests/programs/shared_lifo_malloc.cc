// An allocator that gives out at once, to whichever thread asks next, what any thread has freed:
// one stack of free blocks per size for all threads. Below the recorder it brings out every free
// and reuse that would be written down in the wrong order.
#include <errno.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <sys/mman.h>

namespace {

struct Free {
  Free* next;
};

constexpr size_t kBytes = size_t{4} << 30;
constexpr size_t kHeader = 16;
char* begin = nullptr;
size_t used = 0;
Free* stacks[64];  // by the logarithm of the size
int lock = 0;

class Locked {
 public:
  Locked() {
    while (__atomic_exchange_n(&lock, 1, __ATOMIC_ACQUIRE) != 0) __builtin_ia32_pause();
  }
  ~Locked() { __atomic_store_n(&lock, 0, __ATOMIC_RELEASE); }
};

int ClassOf(size_t size) { return 64 - __builtin_clzll((size < 32 ? 32 : size) - 1); }

char* Carve(size_t bytes, size_t alignment) {
  if (begin == nullptr) {
    void* mapped = mmap(nullptr, kBytes, PROT_READ | PROT_WRITE,
                        MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (mapped == MAP_FAILED) return nullptr;
    begin = static_cast<char*>(mapped);
  }
  const size_t at = ((used + kHeader + alignment - 1) & -alignment);
  if (at + bytes > kBytes) return nullptr;
  used = at + bytes;
  return begin + at;
}

// The word before a block is its class; what is aligned strictly is never used again.
void* Take(size_t size, size_t alignment) {
  const int of = ClassOf(size);
  const Locked locked;
  char* block = nullptr;
  if (alignment <= kHeader && stacks[of] != nullptr) {
    block = reinterpret_cast<char*>(stacks[of]);
    stacks[of] = stacks[of]->next;
  } else {
    block = Carve(size_t{1} << of, alignment < kHeader ? kHeader : alignment);
  }
  if (block == nullptr) {
    errno = ENOMEM;
    return nullptr;
  }
  reinterpret_cast<uint64_t*>(block)[-1] = alignment <= kHeader ? of : 0;
  reinterpret_cast<uint64_t*>(block)[-2] = size;
  return block;
}

// Not by the name of free, which would be the recorder's.
void Give(void* pointer) {
  if (pointer == nullptr) return;
  const uint64_t of = static_cast<uint64_t*>(pointer)[-1];
  if (of == 0) return;
  const Locked locked;
  auto* block = static_cast<Free*>(pointer);
  block->next = stacks[of];
  stacks[of] = block;
}

}  // namespace

#define EXPORT extern "C" __attribute__((visibility("default")))
EXPORT void* malloc(size_t size) { return Take(size, 16); }
EXPORT void* calloc(size_t count, size_t size) {
  void* block = Take(count * size, 16);
  return block != nullptr ? memset(block, 0, count * size) : nullptr;
}
EXPORT void* memalign(size_t alignment, size_t size) { return Take(size, alignment); }
EXPORT void* aligned_alloc(size_t alignment, size_t size) { return Take(size, alignment); }
EXPORT int posix_memalign(void** out, size_t alignment, size_t size) {
  *out = Take(size, alignment);
  return *out != nullptr ? 0 : ENOMEM;
}
EXPORT void free(void* pointer) { Give(pointer); }
EXPORT size_t malloc_usable_size(void* pointer) {
  return pointer != nullptr ? static_cast<uint64_t*>(pointer)[-2] : 0;
}
EXPORT void* realloc(void* pointer, size_t size) {
  void* fresh = Take(size, 16);
  const size_t before = malloc_usable_size(pointer);
  if (fresh != nullptr && pointer != nullptr) {
    memcpy(fresh, pointer, before < size ? before : size);
    Give(pointer);
  }
  return fresh;
}

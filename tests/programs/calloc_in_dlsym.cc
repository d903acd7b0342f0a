// The program wraps malloc and calloc itself and finds the next definitions with dlsym, which may
// allocate through them: the library starts inside the loader, called by a look-up.
#include <dlfcn.h>

#include "tests/programs/block.h"

namespace {

int calls = 0;
bool looking = false;
alignas(16) char early[4096];
size_t early_used = 0;

template <typename Function>
Function Next(const char* name) {
  looking = true;
  auto next = reinterpret_cast<Function>(dlsym(RTLD_NEXT, name));
  looking = false;
  return next;
}

void* Early(size_t size) {
  void* pointer = early + early_used;
  early_used += (size + 15) & ~size_t{15};
  return pointer;
}

}  // namespace

extern "C" void* malloc(size_t size) {
  static void* (*next)(size_t) = nullptr;
  if (next == nullptr) {
    if (looking) return Early(size);
    next = Next<void* (*)(size_t)>("malloc");
  }
  ++calls;
  return next(size);
}

extern "C" void* calloc(size_t count, size_t size) {
  static void* (*next)(size_t, size_t) = nullptr;
  if (next == nullptr) {
    if (looking) return Early(count * size);
    next = Next<void* (*)(size_t, size_t)>("calloc");
  }
  ++calls;
  return next(count, size);
}

extern "C" void free(void* pointer) {
  static void (*next)(void*) = nullptr;
  if (pointer >= early && pointer < early + sizeof(early)) return;
  if (next == nullptr) next = Next<void (*)(void*)>("free");
  next(pointer);
}

int main() {
  const int before = calls;
  Churn(1, 1000);
  auto* zeroed = static_cast<unsigned char*>(Use(calloc(100, 10)));
  for (int i = 0; i < 1000; ++i) Require(zeroed[i] == 0, "calloc");
  free(zeroed);
  printf("wrapped: %s\n", calls > before ? "yes" : "no");
  return 0;
}

// malloc, calloc, realloc and reallocarray at their edges, answered as glibc answers them.
#include <errno.h>
#include <malloc.h>

#include "tests/programs/block.h"

namespace {

void Say(const char* what, void* pointer) {
  printf("%s: %s %s\n", what, pointer != nullptr ? "a block" : "null",
         errno != 0 ? strerrorname_np(errno) : "-");
  errno = 0;
}

}  // namespace

int main() {
  // Kept out of the compiler's sight: it knows which of these are wrong.
  volatile size_t zero = 0, most = PTRDIFF_MAX, more = most + 1, all = SIZE_MAX,
                  half = SIZE_MAX / 2;

  errno = 0;
  void* first = Use(malloc(zero));
  void* second = Use(malloc(zero));
  printf("malloc(0): %s\n", first != nullptr && first != second ? "a block of its own" : "?");
  free(first);
  free(second);
  free(nullptr);
  Say("malloc(PTRDIFF_MAX)", Use(malloc(most)));
  Say("malloc(PTRDIFF_MAX + 1)", Use(malloc(more)));
  Say("malloc(SIZE_MAX)", Use(malloc(all)));
  Say("malloc(SIZE_MAX - 15)", Use(malloc(all - 15)));
  Say("calloc(SIZE_MAX / 2, 3)", Use(calloc(half, 3)));
  Say("calloc(SIZE_MAX, 1)", Use(calloc(all, 1)));
  void* empty = Use(calloc(zero, all));
  Say("calloc(0, SIZE_MAX)", empty);
  free(empty);

  Block block = Allocate(1000, 1);
  Say("realloc(p, SIZE_MAX)", Use(realloc(block.bytes, all)));
  Say("realloc(p, PTRDIFF_MAX)", Use(realloc(block.bytes, most)));
  Say("reallocarray(p, SIZE_MAX / 2, 3)", Use(reallocarray(block.bytes, half, 3)));
  Verify(block);  // a realloc that fails leaves the block alone
  Say("realloc(p, 0)", Use(realloc(block.bytes, zero)));  // frees it
  void* fresh = Use(realloc(nullptr, zero));
  Say("realloc(null, 0)", fresh);
  Say("realloc(p, 0) of an empty block", Use(realloc(fresh, zero)));
  void* array = Use(reallocarray(nullptr, 10, 100));
  Say("reallocarray(null, 10, 100)", array);
  Require(malloc_usable_size(array) >= 1000, "reallocarray's size");
  Say("reallocarray(p, 0, 100)", Use(reallocarray(array, zero, 100)));

  // Grows and shrinks across every kind of size, with its bytes.
  Block moving = Allocate(1, 9);
  for (size_t size = 1; size < (64 << 20); size = size * 2 + 3) {
    Resize(moving, size);
    Block neighbour = Allocate(size / 3 + 1, 7);
    Resize(moving, size / 2 + 1);
    Release(neighbour);
  }
  Resize(moving, 1);
  Release(moving);

  // calloc's memory is zero, whether it is new or was used before.
  for (int round = 0; round < 50; ++round) {
    for (size_t size = 1; size < (4 << 20); size = size * 5 + 3) {
      auto* zeroed = static_cast<unsigned char*>(Use(calloc(1, size)));
      for (size_t i = 0; i < size; ++i) Require(zeroed[i] == 0, "calloc");
      memset(zeroed, 0xff, malloc_usable_size(zeroed));
      free(zeroed);
      if (size > 100000 && round > 3) break;
    }
  }

  // A program may use everything that malloc_usable_size promises.
  Block full[200];
  for (int i = 0; i < 200; ++i) {
    full[i] = Allocate(1 + i * 7, i);
    Require(malloc_usable_size(full[i].bytes) >= full[i].size, "usable size");
    full[i].size = malloc_usable_size(full[i].bytes);
    Fill(full[i], 0);
  }
  for (Block& one : full) Release(one);
  printf("usable size of null: %zu\n", malloc_usable_size(nullptr));

  // Sparse: only what is touched may cost memory.
  constexpr size_t kSparse = size_t{3} << 30;
  auto* sparse = static_cast<unsigned char*>(Use(calloc(kSparse, 1)));
  Require(sparse != nullptr && sparse[kSparse - 1] == 0, "a large calloc");
  sparse[kSparse / 2] = 1;
  free(sparse);
  puts("done");
  return 0;
}

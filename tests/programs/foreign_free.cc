// Blocks that no hook has seen are freed and resized in the ordinary way: they come from the
// allocator below (signal_safe_malloc.cc), by a name that only it has.
#include "tests/programs/block.h"

extern "C" void* private_malloc(size_t size);

int main() {
  constexpr int kForeign = 500;
  for (int i = 0; i < kForeign; ++i) {
    Block foreign{static_cast<unsigned char*>(private_malloc(100 + i)), size_t(100 + i),
                  static_cast<unsigned char>(i)};
    Fill(foreign, 0);
    Churn(i, 20);
    if (i % 5 == 0) Resize(foreign, 1000);
    Release(foreign);
    Churn(i, 20);
  }
  printf("%d foreign blocks\n", kForeign);
  return 0;
}

// Allocates before any constructor has run (preinit_array), in the earliest constructor, and in an
// ordinary one; what was allocated then is resized and freed in main.
#include "tests/programs/block.h"

namespace {

Block first, second, third;

void BeforeConstructors(int, char**, char**) { first = Allocate(100, 1); }
__attribute__((section(".preinit_array"), used)) void (*preinit)(int, char**,
                                                                 char**) = BeforeConstructors;
__attribute__((constructor(101))) void Early() { second = Allocate(5000, 2); }
__attribute__((constructor)) void Ordinary() { third = Allocate(200000, 3); }

}  // namespace

int main() {
  Churn(1, 1000);
  Resize(first, 10000);
  Resize(second, 50);
  Resize(third, 300000);
  Churn(2, 1000);
  Release(first);
  Release(second);
  Release(third);
  puts("done");
  return 0;
}

// A library that finds libc's malloc before anybody else's: loaded with RTLD_DEEPBIND, by a program
// that frees what it allocated. PLUGIN is its path.
#include <dlfcn.h>

#include "tests/programs/block.h"

int main() {
  void* plugin = dlopen(PLUGIN, RTLD_NOW | RTLD_DEEPBIND);
  Require(plugin != nullptr, "dlopen");
  auto* call = reinterpret_cast<Block (*)(int)>(dlsym(plugin, "Call"));
  for (int round = 0; round < 100; ++round) {
    Block block = call(round);
    Churn(round, 100);
    Resize(block, 2000 + round);
    Release(block);
  }
  puts("done");
  return 0;
}

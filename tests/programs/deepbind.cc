// Libraries that would find libc's malloc before anybody else's: loaded with RTLD_DEEPBIND, the
// second by the first, which knows where it lies. The program frees what the library allocated, and
// the library what libc allocated for the program. OPENER is the path of the first, PLUGIN the
// second's name.
#include <dlfcn.h>

#include "tests/programs/block.h"

int main() {
  void* opener = dlopen(OPENER, RTLD_NOW | RTLD_DEEPBIND);
  Require(opener != nullptr, "dlopen");
  auto* open = reinterpret_cast<void* (*)(const char*, int)>(dlsym(opener, "Open"));
  void* plugin = open(PLUGIN, RTLD_NOW | RTLD_DEEPBIND);
  auto* call = reinterpret_cast<Block (*)(int)>(dlsym(plugin, "Call"));
  for (int round = 0; round < 100; ++round) {
    Block block = call(round);
    Churn(round, 100);
    Resize(block, 2000 + round);
    Release(block);
  }
  auto* give_back = reinterpret_cast<void (*)(void*)>(dlsym(plugin, "GiveBack"));
  give_back(strdup("of the program"));
  puts("done");
  return 0;
}

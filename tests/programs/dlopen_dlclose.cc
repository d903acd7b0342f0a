// A library that allocates in its constructor, loaded and unloaded again and again, also with
// RTLD_DEEPBIND; its blocks outlive it. PLUGIN is its path.
#include <dlfcn.h>

#include <thread>

#include "tests/programs/block.h"

int main() {
  for (int round = 0; round < 40; ++round) {
    const int flags = round % 4 == 3 ? RTLD_NOW | RTLD_DEEPBIND : RTLD_LAZY;
    void* plugin = dlopen(PLUGIN, flags);
    Require(plugin != nullptr, "dlopen");
    auto* call = reinterpret_cast<Block (*)(int)>(dlsym(plugin, "Call"));
    Block first = call(round);
    Block second;
    std::thread([&] { second = call(round + 1); }).join();
    Require(dlclose(plugin) == 0, "dlclose");
    Churn(round, 100);
    Release(first);
    Release(second);
  }
  puts("done");
  return 0;
}

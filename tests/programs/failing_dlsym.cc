// dlsym and dlopen that fail: the loader allocates the text of the error, per thread, and frees it
// with the next one or when the thread ends.
#include <dlfcn.h>

#include <string>
#include <thread>

#include "tests/programs/block.h"

namespace {

void Fail(int thread) {
  for (int i = 0; i < 200; ++i) {
    const std::string name = "no_such_symbol_" + std::to_string(i * thread);
    Require(dlsym(RTLD_DEFAULT, name.c_str()) == nullptr, "dlsym");
    const char* error = dlerror();
    Require(error != nullptr && strstr(error, name.c_str()) != nullptr, "dlerror");
    Require(dlopen("./no_such_library.so", RTLD_NOW) == nullptr, "dlopen");
    if (i % 3 == 0) Require(dlerror() != nullptr, "dlerror");  // else the next one finds it
  }
}

}  // namespace

int main() {
  Fail(1);
  std::thread threads[3];
  for (int i = 0; i < 3; ++i) threads[i] = std::thread(Fail, i + 2);
  for (std::thread& thread : threads) thread.join();
  dlsym(RTLD_DEFAULT, "the_last_one");
  printf("%s\n", strstr(dlerror(), "the_last_one"));
  return 0;
}

// A library for deepbind: opens another one, which only its own RUNPATH finds.
#include <dlfcn.h>

#include "tests/programs/block.h"

extern "C" __attribute__((visibility("default"))) void* Open(const char* name, int flags) {
  void* handle = dlopen(name, flags);
  Require(handle != nullptr, "dlopen by a library");
  return handle;
}

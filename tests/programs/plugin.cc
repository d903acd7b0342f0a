// A library for dlopen_dlclose and deepbind: allocates when it is loaded, when it is called and
// when it goes.
#include <string>

#include "tests/programs/block.h"

namespace {

std::string text(1000, 'p');
Block block;
__attribute__((constructor)) void Load() { block = Allocate(300, 1); }
__attribute__((destructor)) void Unload() {
  Churn(3, 100);
  Release(block);
}

}  // namespace

extern "C" __attribute__((visibility("default"))) Block Call(int number) {
  thread_local std::string own(100, 'o');
  own += 'x';
  Churn(number, 200);
  return Allocate(text.size() + own.size() + number, number);
}

extern "C" __attribute__((visibility("default"))) void GiveBack(void* pointer) { free(pointer); }

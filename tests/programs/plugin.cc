// A library for dlopen_dlclose and deepbind: allocates when it is loaded, when it is called and
// when it goes.
#include <new>
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

// How many kinds of operator new tell that there is no such block.
extern "C" __attribute__((visibility("default"))) int RefusedBlocks() {
  volatile size_t huge = PTRDIFF_MAX;
  int refused = 0;
  for (int handlers = 0; handlers < 2; ++handlers) {
    try {
      Use(::operator new(huge));
    } catch (const std::bad_alloc&) {
      ++refused;
    }
    try {
      Use(::operator new[](huge, std::align_val_t{64}));
    } catch (const std::bad_alloc&) {
      ++refused;
    }
    refused += Use(::operator new(huge, std::nothrow)) == nullptr ? 1 : 0;
    std::set_new_handler([] { throw std::bad_alloc(); });
  }
  return refused;
}

extern "C" __attribute__((visibility("default"))) void GiveBack(void* pointer) { free(pointer); }

// Every form of operator new and delete, new handlers, and std::bad_alloc.
#include <new>
#include <string>
#include <vector>

#include "tests/programs/block.h"

namespace {

struct alignas(256) Wide {
  unsigned char bytes[300];
};

int handler_calls = 0;
void* reserve = nullptr;

void Handler() {
  if (++handler_calls == 3) {
    free(reserve);
    std::set_new_handler(nullptr);
  }
}

bool IsAligned(const void* pointer, size_t alignment) {
  return reinterpret_cast<uintptr_t>(pointer) % alignment == 0;
}

const char* TryHuge(size_t size) {
  try {
    Use(::operator new(size));
    return "a block";
  } catch (const std::bad_alloc& error) {
    return error.what();
  }
}

}  // namespace

int main() {
  volatile size_t huge = PTRDIFF_MAX, zero = 0;
  for (int round = 0; round < 100; ++round) {
    delete Use(new int(round));
    delete[] Use(new int[round + 1]);
    delete Use(new (std::nothrow) std::string(round, 'x'));
    delete[] Use(new (std::nothrow) double[round + 1]);
    Wide* wide = Use(new Wide);
    Require(IsAligned(wide, 256), "aligned new");
    delete wide;
    Wide* many = Use(new (std::nothrow) Wide[3]);
    Require(IsAligned(many, 256), "aligned new[]");
    delete[] many;
    void* empty = Use(::operator new(zero));
    Require(empty != nullptr, "operator new(0)");
    ::operator delete(empty, zero);
    void* page = Use(::operator new (100, std::align_val_t{4096}));
    Require(IsAligned(page, 4096), "operator new with alignment");
    ::operator delete (page, 100, std::align_val_t{4096});
    ::operator delete(Use(::operator new(10, std::nothrow)), std::nothrow);
    ::operator delete[](Use(::operator new[](10, std::align_val_t{64}, std::nothrow)),
                        std::align_val_t{64}, std::nothrow);
    ::operator delete(nullptr);
    free(Use(malloc(10)));
  }
  printf("nothrow: %s\n", Use(::operator new(huge, std::nothrow)) == nullptr ? "null" : "a block");
  printf("nothrow[]: %s\n",
         Use(::operator new[](huge, std::align_val_t{64}, std::nothrow)) == nullptr ? "null" : "?");
  printf("throws: %s\n", TryHuge(huge));
  reserve = Use(malloc(100));
  std::set_new_handler(Handler);
  printf("throws: %s", TryHuge(huge));
  printf(" after %d calls of the handler\n", handler_calls);
  std::set_new_handler([] { throw 42; });
  try {
    Use(::operator new(huge));
  } catch (int number) {
    printf("the handler throws: %d\n", number);
  }
  printf("nothrow: %s", Use(::operator new(huge, std::nothrow)) == nullptr ? "null" : "a block");
  printf(", aligned: %s\n",
         Use(::operator new (huge, std::align_val_t{64}, std::nothrow)) == nullptr ? "null" : "?");
  std::set_new_handler(nullptr);
  try {
    std::vector<char> vector;
    vector.reserve(huge);
  } catch (const std::exception& error) {
    printf("vector: %s\n", error.what());
  }
  return 0;
}

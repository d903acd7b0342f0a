// operator new and delete of the program's own, with a header in front of each block; the forms
// that it leaves to the runtime are made of them.
#include <new>
#include <string>
#include <vector>

#include "tests/programs/block.h"

namespace {

constexpr size_t kHeader = 32;
constexpr unsigned char kMark = 0x5a;
int calls_of_new, calls_of_delete;

struct Big {
  unsigned char bytes[100];
  ~Big() { bytes[0] = 0; }
};

}  // namespace

void* operator new(size_t size) {
  ++calls_of_new;
  if (size > PTRDIFF_MAX / 2) throw std::bad_alloc();
  auto* block = static_cast<unsigned char*>(Use(malloc(kHeader + size)));
  block[0] = kMark;
  return block + kHeader;
}

void operator delete(void* pointer) noexcept {
  if (pointer == nullptr) return;
  ++calls_of_delete;
  unsigned char* block = static_cast<unsigned char*>(pointer) - kHeader;
  Require(block[0] == kMark, "a block of this program's operator new");
  free(block);
}

int main() {
  volatile size_t huge = PTRDIFF_MAX;
  for (int round = 0; round < 300; ++round) {
    delete Use(new Big);  // with its size
    delete[] Use(new Big[round + 1]);
    delete Use(new (std::nothrow) int(round));
    delete[] Use(new (std::nothrow) int[round + 1]);
    ::operator delete(Use(::operator new(10)), std::nothrow);
    ::operator delete[](Use(::operator new[](10)), std::nothrow);
    std::vector<std::string> texts(10, std::string(100, 'x'));
  }
  Require(Use(::operator new(huge, std::nothrow)) == nullptr, "null");
  Require(Use(::operator new[](huge, std::nothrow)) == nullptr, "null from new[]");
  printf("%d calls of new, %d of delete\n", calls_of_new, calls_of_delete);
  return 0;
}

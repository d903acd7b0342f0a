#include "random_walk/preload/large.h"

#include <sys/mman.h>

namespace reprise::random_walk::large {
namespace {

constexpr uint64_t kMark = 0x52574d4c41524745;

struct Header {
  uint64_t mark;
  unsigned char* mapping;
  size_t mapping_bytes;
};

Header* header_of(const void* block) {
  const auto address = reinterpret_cast<uintptr_t>(block);
  if (address % kPage != 0) return nullptr;
  auto* header = reinterpret_cast<Header*>(address - kPage);
  return header->mark == kMark ? header : nullptr;
}

}  // namespace

void* allocate(size_t alignment, size_t bytes) {
  if (alignment < kPage) alignment = kPage;
  if (bytes > PTRDIFF_MAX / 2 || alignment > PTRDIFF_MAX / 4) return nullptr;
  // The block begins at least one page behind the mapping.
  const size_t mapped = (bytes + kPage - 1) / kPage * kPage + alignment;
  void* mapping = mmap(nullptr, mapped, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (mapping == MAP_FAILED) return nullptr;
  const auto begin = reinterpret_cast<uintptr_t>(mapping);
  const uintptr_t block = (begin + kPage + alignment - 1) / alignment * alignment;
  *reinterpret_cast<Header*>(block - kPage) = {kMark, static_cast<unsigned char*>(mapping), mapped};
  return reinterpret_cast<void*>(block);
}

void* reallocate(void* block, size_t bytes) {
  Header* header = header_of(block);
  if (header == nullptr || bytes > PTRDIFF_MAX / 2) return nullptr;
  const size_t front = static_cast<size_t>(static_cast<unsigned char*>(block) - header->mapping);
  const size_t mapped = (bytes + kPage - 1) / kPage * kPage + front;
  if (mapped == header->mapping_bytes) return block;
  void* mapping = mremap(header->mapping, header->mapping_bytes, mapped, MREMAP_MAYMOVE);
  if (mapping == MAP_FAILED) return nullptr;
  auto* moved = static_cast<unsigned char*>(mapping) + front;
  *reinterpret_cast<Header*>(moved - kPage) = {kMark, static_cast<unsigned char*>(mapping), mapped};
  return moved;
}

void release(void* block) {
  if (const Header* header = header_of(block); header != nullptr) {
    munmap(header->mapping, header->mapping_bytes);
  }
}

size_t usable_bytes(const void* block) {
  const Header* header = header_of(block);
  if (header == nullptr) return 0;
  return static_cast<size_t>(header->mapping + header->mapping_bytes -
                             static_cast<const unsigned char*>(block));
}

}  // namespace reprise::random_walk::large

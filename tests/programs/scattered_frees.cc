// scattered_frees N: allocates N small blocks, and frees them far from each other.
#include <cstdlib>
#include <vector>

int main(int argc, char** argv) {
  const size_t count = argc > 1 ? static_cast<size_t>(std::atol(argv[1])) : 0;
  std::vector<void*> blocks;
  blocks.reserve(200000);
  for (size_t i = 0; i < count; ++i) blocks.push_back(std::malloc(100));
  for (size_t i = 0; i < count; ++i) std::free(blocks[i * 7919 % count]);
  return 0;
}

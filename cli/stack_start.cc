#include "cli/stack_start.h"

#include <elf.h>

#include <cstddef>
#include <cstring>
#include <fstream>

namespace reprise::cli {
namespace {

constexpr size_t kStackStep = 16;      // bytes: the kernel rounds down to a multiple
constexpr size_t kFrameSteps = 4;      // of these: the alignment of frames, 64 bytes
constexpr size_t kPlatformBytes = 23;  // the platform's name and random bytes, below the strings
constexpr size_t kOtherWords = 3;  // beside the pointers: their count and the ends of both lists

}  // namespace

bool IsElf(const std::string& path) {
  char magic[SELFMAG] = {};
  std::ifstream(path, std::ios::binary).read(magic, SELFMAG);
  return std::memcmp(magic, ELFMAG, SELFMAG) == 0;
}

std::string NameForStackStart(const std::string& path, const std::vector<std::string>& arguments,
                              char* const environment[]) {
  const size_t slash = path.rfind('/');
  if (slash == std::string::npos || !IsElf(path)) return path;
  size_t strings = path.size() + 1, words = arguments.size() + kOtherWords;
  for (const std::string& argument : arguments) strings += argument.size() + 1;
  for (; *environment != nullptr; ++environment, ++words) strings += strlen(*environment) + 1;
  // The stack's start is so many steps below its end: strings, then what is below them.
  const size_t below = (kPlatformBytes + words * sizeof(char*) + kStackStep - 1) / kStackStep;
  size_t pad = (kStackStep - strings % kStackStep) % kStackStep;
  while (((strings + pad) / kStackStep + below) % kFrameSteps != 0) pad += kStackStep;
  return path.substr(0, slash) + std::string(pad, '/') + path.substr(slash);
}

}  // namespace reprise::cli

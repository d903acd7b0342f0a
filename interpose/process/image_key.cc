#include "interpose/process/image_key.h"

#include <string.h>

namespace reprise::interpose {
namespace {

// FNV-1a: short, and as good as any for a few hundred bytes per process.
class Hash {
 public:
  void Add(const char* bytes, size_t count) {
    for (size_t i = 0; i < count; ++i) {
      value_ = (value_ ^ static_cast<unsigned char>(bytes[i])) * 0x100000001b3;
    }
    value_ = (value_ ^ 0xff) * 0x100000001b3;  // ends the field
  }
  uint64_t value() const { return value_ != 0 ? value_ : 1; }

 private:
  uint64_t value_ = 0xcbf29ce484222325;
};

void AddArgument(Hash& hash, const char* argument, size_t length) {
  static constexpr char kTemporary[] = "/tmp/";
  const auto* found =
      static_cast<const char*>(memmem(argument, length, kTemporary, sizeof(kTemporary) - 1));
  if (found == nullptr) {
    hash.Add(argument, length);
    return;
  }
  hash.Add(argument, found - argument + sizeof(kTemporary) - 1);
  for (const char* end = argument + length; end > found; --end) {
    if (end[-1] == '.') {
      hash.Add(end, argument + length - end);
      return;
    }
    if (end[-1] == '/') return;
  }
}

}  // namespace

uint64_t Place(uint64_t parent_place, const char* executable, const char* arguments,
               size_t argument_bytes, const char* working_directory) {
  Hash hash;
  hash.Add(reinterpret_cast<const char*>(&parent_place), sizeof(parent_place));
  hash.Add(executable, strlen(executable));
  hash.Add(working_directory, strlen(working_directory));
  for (size_t at = 0; at < argument_bytes;) {
    const size_t length = strnlen(arguments + at, argument_bytes - at);
    AddArgument(hash, arguments + at, length);
    at += length + 1;
  }
  return hash.value();
}

}  // namespace reprise::interpose

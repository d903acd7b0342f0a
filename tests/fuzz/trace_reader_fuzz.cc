// Feeds the readers of traces anything at all. The first byte says what the others
// are, so that a mutation gets past the checksums:
//   0  a file of any format
//   1  chunks of a compact trace: (type, length / 256, length % 256, content), sealed here
//   2  events of a spool's two chunks, one after another; and its module records
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <string>
#include <utility>

#include "tests/fuzz/read_trace.h"
#include "trace/chunk.h"
#include "trace/spool_format.h"

namespace {

using namespace reprise::trace;  // NOLINT(google-build-using-namespace)

void Read(std::string bytes) {
  Recording recording;
  reprise::fuzz::ReadAnyTrace(std::move(bytes), recording).IgnoreError();
}

std::string SealChunks(const std::string& data) {
  std::string file = SealFileHeader();
  uint32_t number = 0;
  for (size_t at = 0; at + 3 <= data.size();) {
    const auto type = static_cast<ChunkType>(data[at] & 15);
    const size_t length =
        static_cast<uint8_t>(data[at + 1]) * size_t{256} + static_cast<uint8_t>(data[at + 2]);
    const std::string content = data.substr(at + 3, length);
    at += 3 + content.size();
    file += SealChunk(type, number++, content);
  }
  return file;
}

std::string MakeSpool(const std::string& data) {
  SpoolHeader header{};
  header.magic = kSpoolMagic;
  header.version = kSpoolVersion;
  header.byte_order = kSpoolByteOrder;
  header.address_shift = kSpoolAddressShift;
  header.chunks_used = 2;
  header.stack_base = 0x1000;
  const size_t third = data.size() / 3;
  header.module_bytes_used = third;
  std::string file(kSpoolChunksOffset, '\0');
  std::memcpy(file.data(), &header, sizeof(header));
  std::memcpy(file.data() + kSpoolHeaderBytes, data.data(), std::min<size_t>(third, 4096));
  for (uint32_t i = 0; i < 2; ++i) {
    SpoolChunk chunk{};
    chunk.magic = kSpoolChunkMagic;
    chunk.index = i;
    file.resize(kSpoolChunksOffset + i * kSpoolChunkBytes);
    file.append(reinterpret_cast<const char*>(&chunk), sizeof(chunk));
    file += data.substr(third * (i + 1), std::min<size_t>(third, kSpoolChunkBytes / 2));
  }
  return file;
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  if (size == 0) return 0;
  const std::string rest(reinterpret_cast<const char*>(data + 1), size - 1);
  switch (data[0]) {
    case 1:
      Read(SealChunks(rest));
      break;
    case 2:
      Read(MakeSpool(rest));
      break;
    default:
      Read(rest);
  }
  return 0;
}

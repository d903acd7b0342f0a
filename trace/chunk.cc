#include "trace/chunk.h"

#include <xxhash.h>
#include <zstd.h>

#include <cassert>
#include <cstddef>
#include <cstring>
#include <new>

#include "absl/strings/str_cat.h"

namespace reprise::trace {
namespace {

// A recording waits for this. Level 12 makes files of 0.8 to 0.9 of the size, and takes two to
// three times as long for everything.
constexpr int kCompressionLevel = 3;

template <typename Header>
void AppendBytes(std::string& out, const Header& header) {
  out.append(reinterpret_cast<const char*>(&header), sizeof(header));
}

}  // namespace

std::string SealFileHeader() {
  FileHeader header;
  header.checksum = XXH3_64bits(&header, offsetof(FileHeader, checksum));
  std::string out;
  AppendBytes(out, header);
  return out;
}

std::string SealChunk(ChunkType type, uint32_t number, std::string_view raw) {
  assert(raw.size() <= kMaxChunkBytes);
  std::string payload(ZSTD_compressBound(raw.size()), '\0');
  const size_t compressed =
      ZSTD_compress(payload.data(), payload.size(), raw.data(), raw.size(), kCompressionLevel);
  if (ZSTD_isError(compressed)) throw std::bad_alloc();  // there is room: it fails for nothing else
  payload.resize(compressed);
  ChunkHeader header;
  header.type = static_cast<uint32_t>(type);
  header.number = number;
  header.raw_bytes = static_cast<uint32_t>(raw.size());
  header.payload_bytes = static_cast<uint32_t>(payload.size());
  header.payload_checksum = XXH3_64bits(payload.data(), payload.size());
  header.header_checksum = XXH3_64bits(&header, offsetof(ChunkHeader, header_checksum));
  std::string out;
  AppendBytes(out, header);
  return out + payload;
}

bool ChunkScanner::Read(uint64_t at, Chunk& chunk, const char*& reason) const {
  ChunkHeader header;
  const uint64_t left = file_.size() - at;
  reason = "the file ends within a chunk";
  if (left < sizeof(header)) return false;
  std::memcpy(&header, file_.data() + at, sizeof(header));
  reason = "no chunk begins here";
  if (header.sync != kChunkSync) return false;
  reason = "the checksum of a chunk header does not match";
  if (header.header_checksum != XXH3_64bits(&header, offsetof(ChunkHeader, header_checksum))) {
    return false;
  }
  reason = "a chunk header claims too much";
  if (header.raw_bytes > kMaxChunkBytes || header.payload_bytes > 2 * kMaxChunkBytes) return false;
  reason = "the file ends within a chunk";
  if (header.payload_bytes > left - sizeof(header)) return false;
  const uint8_t* payload = file_.data() + at + sizeof(header);
  reason = "the checksum of a chunk does not match";
  if (header.payload_checksum != XXH3_64bits(payload, header.payload_bytes)) return false;
  reason = "a chunk cannot be decompressed";
  chunk.raw.resize(header.raw_bytes);
  const size_t got =
      ZSTD_decompress(chunk.raw.data(), chunk.raw.size(), payload, header.payload_bytes);
  if (ZSTD_isError(got) || got != header.raw_bytes) return false;
  chunk.type = static_cast<ChunkType>(header.type);
  chunk.number = header.number;
  chunk.offset = at;
  chunk.bytes = sizeof(header) + header.payload_bytes;
  return true;
}

uint64_t ChunkScanner::FindSync(uint64_t from) const {
  if (from >= file_.size()) return file_.size();
  const void* found =
      memmem(file_.data() + from, file_.size() - from, &kChunkSync, sizeof(kChunkSync));
  if (found == nullptr) return file_.size();
  return static_cast<uint64_t>(static_cast<const uint8_t*>(found) - file_.data());
}

bool ChunkScanner::Next(Chunk& chunk) {
  const uint64_t start = at_;
  const char* first_reason = nullptr;
  while (at_ < file_.size()) {
    const char* reason = nullptr;
    const bool intact = Read(at_, chunk, reason);
    if (first_reason == nullptr && !intact) first_reason = reason;
    if (!intact) {
      at_ = FindSync(at_ + 1);
      continue;
    }
    if (at_ > start) {
      AddDamage(damage_, {start, at_ - start, first_reason});
    } else if (chunk.number != expected_) {
      AddDamage(damage_, {start, 0,
                          absl::StrCat("expected chunk ", expected_, " of the trace, found ",
                                       chunk.number)});
    }
    expected_ = chunk.number + 1;
    at_ += chunk.bytes;
    return true;
  }
  if (at_ > start) AddDamage(damage_, {start, at_ - start, first_reason});
  return false;
}

}  // namespace reprise::trace

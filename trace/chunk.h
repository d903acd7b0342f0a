// Chunks of a compact trace: sealing them, and finding them again in a file that may be damaged.
#ifndef REPRISE_TRACE_CHUNK_H_
#define REPRISE_TRACE_CHUNK_H_

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "trace/compact_format.h"
#include "trace/recording.h"

namespace reprise::trace {

// The bytes of a file header, checksum included.
std::string SealFileHeader();

// The bytes of a chunk: header and compressed payload. `raw` must not exceed kMaxChunkBytes.
std::string SealChunk(ChunkType type, uint32_t number, std::string_view raw);

struct Chunk {
  ChunkType type = ChunkType::kEnd;
  uint32_t number = 0;
  uint64_t offset = 0;  // of its header, bytes from the start of the file
  uint64_t bytes = 0;   // header and payload
  std::string raw;
};

// Hands out the intact chunks from `offset` on, in file order, and notes what it had to skip.
class ChunkScanner {
 public:
  ChunkScanner(std::span<const uint8_t> file, uint64_t offset, std::vector<Damage>& damage)
      : file_(file), at_(offset), damage_(damage) {}

  // False at the end of the file.
  bool Next(Chunk& chunk);

 private:
  // Whether an intact chunk begins at `at`; says why not.
  bool Read(uint64_t at, Chunk& chunk, const char*& reason) const;
  uint64_t FindSync(uint64_t from) const;  // the end of the file when there is none

  std::span<const uint8_t> file_;
  uint64_t at_;
  std::vector<Damage>& damage_;
  uint32_t expected_ = 0;  // number of the next chunk
};

}  // namespace reprise::trace

#endif  // REPRISE_TRACE_CHUNK_H_

// Makes spools for tests, event by event, as a recorded process would.
#ifndef REPRISE_TESTS_UNIT_TRACE_SPOOL_BUILDER_H_
#define REPRISE_TESTS_UNIT_TRACE_SPOOL_BUILDER_H_

#include <cstdint>
#include <string>
#include <vector>

#include "trace/spool_format.h"

namespace reprise::trace {

// Epochs and addresses are given by the test; nothing is checked, so that spools can also be wrong.
class SpoolBuilder {
 public:
  SpoolBuilder();

  // Chunks are numbered from 0; every event goes to the end of the chunk it names, behind its epoch
  // when that is another than the one before.
  void Thread(uint32_t chunk, uint32_t id, uint32_t parent, uint64_t path, uint64_t epoch);
  void Allocate(uint32_t chunk, uint64_t epoch, uint64_t address, uint64_t size,
                SpoolEventKind kind = kSpoolMalloc, uint64_t site = 0x1000, int log2_alignment = 0);
  void Free(uint32_t chunk, uint64_t epoch, uint64_t address, SpoolEventKind kind = kSpoolFree);
  void Usable(uint32_t chunk, uint64_t epoch, uint64_t address, uint64_t answer);
  void Stack(uint32_t chunk, uint64_t number, const std::vector<uint64_t>& addresses);
  void Words(uint32_t chunk, const std::vector<uint64_t>& words);
  void Seal(uint32_t chunk);
  void Module(const std::string& path, const std::string& build_id, uint64_t begin, uint64_t end,
              uint64_t epoch);

  uint64_t EventBytes(uint32_t chunk) const { return chunks_[chunk].events.size(); }
  static uint64_t ChunkOffset(uint32_t chunk) {
    return kSpoolChunksOffset + uint64_t{chunk} * kSpoolChunkBytes;
  }

  SpoolHeader header{};
  std::string Bytes() const;                  // the whole file, the last chunk cut after its events
  void Write(const std::string& path) const;  // sparse

 private:
  struct Chunk {
    std::string events;
    uint64_t epoch = 0;
    bool sealed = false;
  };
  Chunk& At(uint32_t chunk);
  void Epoch(uint32_t chunk, uint64_t epoch);
  std::string modules_;
  std::vector<Chunk> chunks_;
};

// Site words and addresses as the hooks make them.
constexpr uint64_t SiteWord(uint64_t return_address, uint64_t depth) {
  return return_address | depth << kSpoolSiteBits;
}

// A file name in the test's temporary folder.
std::string TestPath(const std::string& name);
void WriteFile(const std::string& path, const std::string& bytes);
std::string ReadFile(const std::string& path);

}  // namespace reprise::trace

#endif  // REPRISE_TESTS_UNIT_TRACE_SPOOL_BUILDER_H_

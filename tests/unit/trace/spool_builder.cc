#include "tests/unit/trace/spool_builder.h"

#include <gtest/gtest.h>
#include <unistd.h>
#include <xxhash.h>

#include <cstring>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <system_error>

namespace reprise::trace {
namespace {

uint64_t Word0(uint64_t kind, uint64_t address) {
  return kind | (address >> kSpoolAddressShift) << 20;
}

}  // namespace

SpoolBuilder::SpoolBuilder() {
  std::memset(static_cast<void*>(&header), 0, sizeof(header));  // what lies between its fields, too
  header.magic = kSpoolMagic;
  header.version = kSpoolVersion;
  header.byte_order = kSpoolByteOrder;
  header.address_shift = kSpoolAddressShift;
  header.place = 77;
  header.complete = 1;
  std::strcpy(header.executable, "/bin/example");
}

SpoolBuilder::Chunk& SpoolBuilder::At(uint32_t chunk) {
  if (chunks_.size() <= chunk) chunks_.resize(chunk + 1);
  header.chunks_used = chunks_.size();
  return chunks_[chunk];
}

void SpoolBuilder::Words(uint32_t chunk, const std::vector<uint64_t>& words) {
  At(chunk).events.append(reinterpret_cast<const char*>(words.data()), words.size() * 8);
}

void SpoolBuilder::Epoch(uint32_t chunk, uint64_t epoch) {
  if (At(chunk).epoch == epoch) return;
  At(chunk).epoch = epoch;
  Words(chunk, {kSpoolEpoch, epoch});
}

void SpoolBuilder::Thread(uint32_t chunk, uint32_t id, uint32_t parent, uint64_t path,
                          uint64_t epoch) {
  At(chunk).epoch = epoch;
  Words(chunk, {kSpoolThread, id | uint64_t{parent} << 32, path, epoch});
}

void SpoolBuilder::Allocate(uint32_t chunk, uint64_t epoch, uint64_t address, uint64_t size,
                            SpoolEventKind kind, uint64_t site, int log2_alignment) {
  Epoch(chunk, epoch);
  if (kind == kSpoolSmallMalloc || kind == kSpoolSmallRealloc) {
    Words(chunk, {Word0(kind, address) | size << 4, site});
    return;
  }
  Words(chunk, {Word0(kind, address), site,
                size | static_cast<uint64_t>(log2_alignment) << kSpoolSizeBits});
}

void SpoolBuilder::Free(uint32_t chunk, uint64_t epoch, uint64_t address, SpoolEventKind kind) {
  Epoch(chunk, epoch);
  Words(chunk, {Word0(kind, address)});
}

void SpoolBuilder::Usable(uint32_t chunk, uint64_t epoch, uint64_t address, uint64_t answer) {
  Epoch(chunk, epoch);
  Words(chunk, {Word0(kSpoolUsable, address), answer});
}

void SpoolBuilder::Stack(uint32_t chunk, uint64_t number, const std::vector<uint64_t>& addresses) {
  Words(chunk, {kSpoolStack | addresses.size() << 4 | number << 20});
  Words(chunk, addresses);
}

void SpoolBuilder::Seal(uint32_t chunk) { At(chunk).sealed = true; }

void SpoolBuilder::Module(const std::string& path, const std::string& build_id, uint64_t begin,
                          uint64_t end, uint64_t epoch) {
  SpoolModule record{};
  record.path_bytes = static_cast<uint16_t>(path.size());
  record.build_id_bytes = static_cast<uint16_t>(build_id.size());
  record.base = begin;
  record.begin = begin;
  record.end = end;
  record.epoch = epoch;
  record.bytes =
      static_cast<uint32_t>((sizeof(record) + path.size() + build_id.size() + 7) / 8 * 8);
  std::string bytes(reinterpret_cast<const char*>(&record), sizeof(record));
  bytes += path + build_id;
  bytes.resize(record.bytes);
  modules_ += bytes;
  header.module_bytes_used = modules_.size();
}

std::string SpoolBuilder::Bytes() const {
  std::string bytes(kSpoolChunksOffset, '\0');
  std::memcpy(bytes.data(), &header, sizeof(header));
  std::memcpy(bytes.data() + kSpoolHeaderBytes, modules_.data(), modules_.size());
  for (uint32_t i = 0; i < chunks_.size(); ++i) {
    SpoolChunk chunk{};
    chunk.magic = kSpoolChunkMagic;
    chunk.index = i;
    chunk.serial = i + 1;
    const std::string& events = chunks_[i].events;
    if (chunks_[i].sealed) {
      chunk.bytes = events.size();
      chunk.checksum = XXH3_64bits(events.data(), events.size());
    }
    bytes.resize(ChunkOffset(i));
    bytes.append(reinterpret_cast<const char*>(&chunk), sizeof(chunk));
    bytes += events;
  }
  return bytes;
}

void SpoolBuilder::Write(const std::string& path) const { WriteFile(path, Bytes()); }

std::string TestPath(const std::string& name) {
  // One folder per process, gone when it ends.
  struct Root {
    std::filesystem::path path =
        std::filesystem::temp_directory_path() / ("reprise-test-" + std::to_string(getpid()));
    ~Root() {
      std::error_code ignored;
      std::filesystem::remove_all(path, ignored);
    }
  };
  static const Root root;
  const auto* test = testing::UnitTest::GetInstance()->current_test_info();
  const std::filesystem::path folder = root.path / (test != nullptr ? test->name() : "all");
  std::filesystem::create_directories(folder);
  return (folder / name).string();
}

void WriteFile(const std::string& path, const std::string& bytes) {
  std::ofstream(path, std::ios::binary | std::ios::trunc) << bytes;
}

std::string ReadFile(const std::string& path) {
  std::ifstream in(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(in), std::istreambuf_iterator<char>()};
}

}  // namespace reprise::trace

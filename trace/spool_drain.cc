#include "trace/spool_drain.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>
#include <xxhash.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/text.h"
#include "trace/mapped_file.h"

namespace reprise::trace {
namespace {

uint64_t Load(const uint64_t& count) { return __atomic_load_n(&count, __ATOMIC_ACQUIRE); }
void Store(uint64_t& count, uint64_t value) { __atomic_store_n(&count, value, __ATOMIC_RELEASE); }

// Whether no word behind the thread's name, with which the chunk [begin, end) begins, is zero or
// says that an event was being written there. Such a word may as well be a part of an event, but
// seldom is.
bool LooksWhole(const char* begin, const char* end) {
  constexpr size_t kNameBytes = 32;
  if ((*begin & 15) != kSpoolThread) return false;
  begin += kNameBytes;
  constexpr uint64_t kMostSkipped = (kSpoolChunkBytes / 8 + 1) << 20;
  constexpr uint64_t kKind = 15 | kSpoolWaste;
  for (; begin < end; begin += 8) {
    uint64_t word;
    std::memcpy(&word, begin, sizeof(word));
    if (word == 0) return false;
    if ((word & kKind) == kSpoolSkip && word >= 1 << 20 && word < kMostSkipped) return false;
  }
  return true;
}

// Whether every word of [begin, end) belongs to an event that is whole, or to room that was wasted.
// From event to event, which takes five times as long.
bool IsWhole(const char* begin, const char* end) {
  static constexpr uint64_t kWords[16] = {0, 3, 3, 3, 3, 1, 1, 1, 2, 4, 2, 0, 2, 0, 1, 2};
  while (begin < end) {
    uint64_t word;
    std::memcpy(&word, begin, sizeof(word));
    uint64_t words = kWords[word & 15];
    if ((word & 15) == kSpoolSkip && (word & kSpoolWaste) != 0) words = word >> 20;
    if ((word & 15) == kSpoolStack) words = 1 + (word >> 4 & kSpoolStackCount);
    if (words == 0 || words > static_cast<uint64_t>(end - begin) / 8) return false;
    begin += words * 8;
  }
  return true;
}

bool ReadAll(int file, char* bytes, size_t count, uint64_t offset) {
  for (size_t done = 0; done < count;) {
    const ssize_t got = pread(file, bytes + done, count - done, static_cast<off_t>(offset + done));
    if (got < 0 && errno == EINTR) continue;
    if (got <= 0) return false;
    done += static_cast<size_t>(got);
  }
  return true;
}

bool WriteAll(int file, const char* bytes, size_t count, uint64_t offset) {
  for (size_t done = 0; done < count;) {
    const ssize_t put = pwrite(file, bytes + done, count - done, static_cast<off_t>(offset + done));
    if (put < 0 && errno == EINTR) continue;
    if (put <= 0) return false;
    done += static_cast<size_t>(put);
  }
  return true;
}

}  // namespace

absl::StatusOr<SpoolDrain> SpoolDrain::Open(const std::string& path) {
  SpoolDrain drain;
  drain.file_ = open(path.c_str(), O_RDWR | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);
  if (drain.file_ < 0) return FileError(errno, path);
  struct stat info;
  if (fstat(drain.file_, &info) != 0) return FileError(errno, path);
  if (!S_ISREG(info.st_mode) || static_cast<uint64_t>(info.st_size) < kSpoolChunksOffset) {
    return absl::DataLossError(absl::StrCat(
        path, ": expected a spool, found ",
        base::Counted(static_cast<uint64_t>(info.st_size), "byte"), " of something else"));
  }
  void* mapped =
      mmap(nullptr, kSpoolHeaderBytes, PROT_READ | PROT_WRITE, MAP_SHARED, drain.file_, 0);
  if (mapped == MAP_FAILED) return FileError(errno, path);
  drain.header_ = static_cast<SpoolHeader*>(mapped);
  if (Load(drain.header_->magic) != kSpoolMagic || drain.header_->version != kSpoolVersion ||
      drain.header_->byte_order != kSpoolByteOrder) {
    return absl::DataLossError(absl::StrCat(path, ": expected a spool of version ", kSpoolVersion));
  }
  drain.buffer_.resize(kSpoolChunkBytes);
  return drain;
}

SpoolDrain::SpoolDrain(SpoolDrain&& other) noexcept
    : file_(std::exchange(other.file_, -1)),
      header_(std::exchange(other.header_, nullptr)),
      unfinished_(std::move(other.unfinished_)),
      buffer_(std::move(other.buffer_)) {}

SpoolDrain& SpoolDrain::operator=(SpoolDrain&& other) noexcept {
  std::swap(file_, other.file_);
  std::swap(header_, other.header_);
  std::swap(unfinished_, other.unfinished_);
  std::swap(buffer_, other.buffer_);
  return *this;
}

SpoolDrain::~SpoolDrain() {
  if (header_ != nullptr) munmap(header_, kSpoolHeaderBytes);
  if (file_ >= 0) close(file_);
}

uint64_t SpoolDrain::Run() {
  uint64_t copied = 0;
  std::erase_if(unfinished_, [&](uint32_t index) {
    const Outcome outcome = Copy(index);
    copied += outcome == Outcome::kCopied;
    return outcome != Outcome::kUnfinished;
  });
  // The program may write anything into the header: more chunks than wait at a time are none.
  uint64_t left = kSpoolRing;
  for (uint64_t next = header_->copied_count; next < Load(header_->sealed_count) && left-- > 0;
       ++next) {
    const uint32_t index = header_->sealed[next % kSpoolRing];
    const Outcome outcome = Copy(index);
    copied += outcome == Outcome::kCopied;
    // Few hooks are under a signal handler at a time; others were left by a jump for ever.
    if (outcome == Outcome::kUnfinished && unfinished_.size() < kSpoolRing) {
      unfinished_.push_back(index);
    }
    Store(header_->copied_count, next + 1);
  }
  return copied;
}

bool SpoolDrain::Finished() const {
  return __atomic_load_n(&header_->complete, __ATOMIC_ACQUIRE) != 0 &&
         header_->copied_count == Load(header_->sealed_count);
}

SpoolDrain::Outcome SpoolDrain::Copy(uint32_t index) {
  const uint64_t from = kSpoolChunksOffset + uint64_t{index} * kSpoolChunkBytes;
  if (!ReadAll(file_, buffer_.data(), kSpoolChunkBytes, from)) return Outcome::kRefused;
  SpoolChunk chunk;
  std::memcpy(&chunk, buffer_.data(), sizeof(chunk));
  const char* events = buffer_.data() + sizeof(chunk);
  if (chunk.magic != kSpoolChunkMagic || chunk.index != index ||
      chunk.bytes != kSpoolChunkBytes - sizeof(chunk)) {
    return Outcome::kRefused;
  }
  const char* end = events + chunk.bytes;
  if (!LooksWhole(events, end) && !IsWhole(events, end)) return Outcome::kUnfinished;
  chunk.checksum = XXH3_64bits(events, chunk.bytes);
  std::memcpy(buffer_.data(), &chunk, sizeof(chunk));
  const uint64_t copies = header_->copies;
  const uint64_t to = header_->copies_offset + copies * kSpoolChunkBytes;
  // On a full disk the chunk stays where it is.
  if (!WriteAll(file_, buffer_.data(), kSpoolChunkBytes, to)) return Outcome::kRefused;
  Store(header_->copies, copies + 1);
  const uint64_t drained = header_->drained_count;
  if (drained - Load(header_->returned_count) < kSpoolRing) {
    header_->drained[drained % kSpoolRing] = index;
    Store(header_->drained_count, drained + 1);
  }
  return Outcome::kCopied;
}

}  // namespace reprise::trace

#include "trace/spool_follower.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <utility>

#include "absl/strings/str_cat.h"

namespace reprise::trace {
namespace {

constexpr uint64_t kStepChunks = 8;
// New events lie in one of so many newest epochs (interpose/record/epochs.h: kMostBehind), and
// more.
constexpr uint64_t kNewestEpochs = 8;
// Where more chunks lie in their places than this, the copies are too few to be worth it.
constexpr uint64_t kMostChunks = 4096;

uint64_t LoadShared(const uint64_t& count) { return __atomic_load_n(&count, __ATOMIC_ACQUIRE); }

bool ReadAt(int file, void* bytes, size_t count, uint64_t offset) {
  for (size_t done = 0; done < count;) {
    const ssize_t got = pread(file, static_cast<char*>(bytes) + done, count - done,
                              static_cast<off_t>(offset + done));
    if (got < 0 && errno == EINTR) continue;
    if (got <= 0) return false;
    done += static_cast<size_t>(got);
  }
  return true;
}

// Header and module records, which is all that ReadSpoolRecords looks at.
absl::StatusOr<SpoolRecords> RecordsOf(int file, const std::string& path,
                                       std::vector<Damage>& damage) {
  std::string bytes(kSpoolHeaderBytes, '\0');
  SpoolHeader header;
  if (!ReadAt(file, bytes.data(), bytes.size(), 0)) return FileError(errno, path);
  std::memcpy(&header, bytes.data(), sizeof(header));
  bytes.resize(kSpoolHeaderBytes + std::min(header.module_bytes_used, kSpoolModuleBytes));
  if (!ReadAt(file, bytes.data() + kSpoolHeaderBytes, bytes.size() - kSpoolHeaderBytes,
              kSpoolHeaderBytes)) {
    return FileError(errno, path);
  }
  return ReadSpoolRecords(MappedFile::FromBytes(std::move(bytes)), path, damage);
}

SpoolBytes CopyOf(const char* begin, const char* end, uint64_t position) {
  const auto size = static_cast<size_t>(end - begin);
  const std::shared_ptr<char[]> bytes(new char[size]);
  std::memcpy(bytes.get(), begin, size);
  return {bytes.get(), size, position, bytes};
}

}  // namespace

absl::StatusOr<std::unique_ptr<SpoolFollower>> SpoolFollower::Open(
    const std::string& path, Recording& recording, absl::FunctionRef<void(const Event&)> on_event) {
  const int file = open(path.c_str(), O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);
  if (file < 0) return FileError(errno, path);
  std::vector<Damage> damage;
  absl::StatusOr<SpoolRecords> records = RecordsOf(file, path, damage);
  if (records.ok() && !damage.empty()) records = absl::DataLossError(path);
  void* header = MAP_FAILED;
  if (records.ok()) {
    header = mmap(nullptr, kSpoolHeaderBytes, PROT_READ, MAP_SHARED, file, 0);
    if (header == MAP_FAILED) records = FileError(errno, path);
  }
  if (!records.ok()) {
    close(file);
    return records.status();
  }
  return std::unique_ptr<SpoolFollower>(new SpoolFollower(
      path, file, static_cast<const SpoolHeader*>(header), *records, recording, on_event));
}

SpoolFollower::SpoolFollower(std::string path, int file, const SpoolHeader* header,
                             const SpoolRecords& records, Recording& recording,
                             absl::FunctionRef<void(const Event&)> on_event)
    : path_(std::move(path)),
      file_(file),
      header_(header),
      module_bytes_(records.header.module_bytes_used),
      modules_(records.modules.size()),
      recording_(recording),
      index_(recording),
      interpreter_(recording, records.modules, records.header.stack_base, index_, on_event) {
  recording.process = records.process;
}

SpoolFollower::~SpoolFollower() {
  if (chunks_ != nullptr) {
    munmap(const_cast<char*>(chunks_), chunks_mapped_ * kSpoolChunkBytes);
  }
  munmap(const_cast<SpoolHeader*>(header_), kSpoolHeaderBytes);
  close(file_);
}

uint64_t SpoolFollower::bytes() const {
  return interpreter_.ledger().bytes() + merge_.open_segments() * kSpoolChunkBytes;
}

SpoolFollower::Outcome SpoolFollower::GiveUp() {
  gave_up_ = true;
  return Outcome::kGaveUp;
}

SpoolFollower::Outcome SpoolFollower::Step() {
  if (gave_up_ || !FindCopies()) return GiveUp();
  const uint64_t last = CertainEpoch();
  if (last <= last_) return Outcome::kNothing;
  std::vector<Part> parts;
  if (!FindParts(last, parts)) return gave_up_ ? Outcome::kGaveUp : Outcome::kNothing;
  if (LoadShared(header_->module_bytes_used) != module_bytes_) {
    const absl::StatusOr<SpoolRecords> records = RecordsOf(file_, path_, recording_.damage);
    if (!records.ok() || !AddModules(*records)) return GiveUp();
  }
  for (const Part& part : parts) index_.AddPart(part.bytes, part.index, part.after);
  if (!AddCopies(last)) return GiveUp();
  index_.Settle();
  if (index_.late() || !recording_.damage.empty()) return GiveUp();
  merge_.Add(index_.TakeSegments(), nullptr);
  merge_.Run(interpreter_, last);
  last_ = last;
  index_.SetHandedOut(last + 1);
  return Outcome::kHandedOut;
}

// Those that were made since. False: that is no copy.
bool SpoolFollower::FindCopies() {
  const uint64_t count = LoadShared(header_->copies);
  while (newest_.size() < count) {
    struct {
      SpoolChunk chunk;
      uint64_t thread[4];  // the event with which every chunk begins
    } begin;
    const uint64_t number = newest_.size();
    if (!ReadAt(file_, &begin, sizeof(begin), header_->copies_offset + number * kSpoolChunkBytes) ||
        begin.chunk.magic != kSpoolChunkMagic || (begin.thread[0] & 15) != kSpoolThread) {
      return false;
    }
    const uint64_t epoch = begin.thread[3];
    newest_.push_back(newest_.empty() ? epoch : std::max(newest_.back(), epoch));
    copies_.emplace(epoch, number);
    index_.ExpectCopy(begin.chunk.index, begin.chunk.serial);
  }
  return true;
}

// No event of this epoch or of an older one will be written; 0: not known.
uint64_t SpoolFollower::CertainEpoch() {
  if (newest_.size() <= kChunksBehind) return 0;
  stepped_ = std::min(newest_.size() - kChunksBehind, stepped_ + kStepChunks);
  const uint64_t newest = newest_[stepped_ - 1];
  return newest > kNewestEpochs ? newest - kNewestEpochs : 0;
}

bool SpoolFollower::AddModules(const SpoolRecords& records) {
  if (records.modules.size() < modules_) return false;
  const bool added = interpreter_.modules().Add(
      {records.modules.begin() + static_cast<ptrdiff_t>(modules_), records.modules.end()});
  modules_ = records.modules.size();
  module_bytes_ = records.header.module_bytes_used;
  return added;
}

bool SpoolFollower::MapChunks() {
  const uint64_t used = LoadShared(header_->chunks_used);
  if (used > kMostChunks) return false;
  if (used <= chunks_mapped_) return true;
  if (chunks_ != nullptr) munmap(const_cast<char*>(chunks_), chunks_mapped_ * kSpoolChunkBytes);
  chunks_ = nullptr;
  chunks_mapped_ = 0;
  void* mapped = mmap(nullptr, used * kSpoolChunkBytes, PROT_READ, MAP_SHARED, file_,
                      static_cast<off_t>(kSpoolChunksOffset));
  if (mapped == MAP_FAILED) return false;
  chunks_ = static_cast<const char*>(mapped);
  chunks_mapped_ = used;
  return true;
}

// What chunks that are not copied hold of epochs up to `last`. False: that is not certain yet.
bool SpoolFollower::FindParts(uint64_t last, std::vector<Part>& parts) {
  if (!MapChunks()) return false;
  for (uint32_t index = 0; index < chunks_mapped_; ++index) {
    if (!FindPart(index, last, parts)) return false;
  }
  return true;
}

bool SpoolFollower::FindPart(uint32_t index, uint64_t last, std::vector<Part>& parts) {
  const char* const chunk = chunks_ + index * kSpoolChunkBytes;
  const auto* header = reinterpret_cast<const SpoolChunk*>(chunk);
  const uint64_t serial = LoadShared(header->serial);
  if (serial == 0 || index_.HasCopy(index, serial)) return true;
  const uint64_t sealed = LoadShared(header->bytes);
  if (sealed > kSpoolChunkBytes - sizeof(SpoolChunk)) gave_up_ = true;
  if (gave_up_) return false;
  SpoolReach reach = index_.Reach(index, serial);
  const char* const begin = chunk + std::max(reach.bytes, sizeof(SpoolChunk));
  const char* const end = chunk + (sealed != 0 ? sizeof(SpoolChunk) + sealed : kSpoolChunkBytes);
  const char* at = begin;
  SpoolEvent event;
  for (bool malformed = false;; at += event.bytes) {
    if (!DecodeSpoolEvent(at, end, event, malformed)) {
      gave_up_ |= malformed;
      // A sealed chunk has no end before its end: an event there is still being written.
      if (malformed || (sealed != 0 && at < end)) return false;
      break;
    }
    if (event.kind == kSpoolSkip && !event.flag) return false;  // just being written
    if (event.kind != kSpoolThread && event.kind != kSpoolEpoch) continue;
    if (event.epoch > last) break;
    reach.epoch = event.epoch;
    if (event.kind == kSpoolThread) reach.thread = static_cast<uint32_t>(event.Word(1));
  }
  if (at == begin) return true;
  reach.bytes = static_cast<uint64_t>(at - chunk);
  parts.push_back(
      {CopyOf(begin, at,
              kSpoolChunksOffset + index * kSpoolChunkBytes + static_cast<uint64_t>(begin - chunk)),
       index, reach});
  return true;
}

bool SpoolFollower::AddCopies(uint64_t last) {
  while (!copies_.empty() && std::get<0>(copies_.top()) <= last) {
    const uint64_t number = std::get<1>(copies_.top());
    copies_.pop();
    const uint64_t position = header_->copies_offset + number * kSpoolChunkBytes;
    const std::shared_ptr<char[]> bytes(new char[kSpoolChunkBytes]);
    if (!ReadAt(file_, bytes.get(), kSpoolChunkBytes, position)) return false;
    index_.AddCopy({bytes.get(), kSpoolChunkBytes, position, bytes}, number);
  }
  return true;
}

absl::Status SpoolFollower::Finish() {
  if (gave_up_) return absl::AbortedError(path_);
  const absl::StatusOr<MappedFile> file = MappedFile::Open(path_);
  if (!file.ok()) return file.status();
  struct stat named, followed;
  if (stat(path_.c_str(), &named) != 0 || fstat(file_, &followed) != 0 ||
      named.st_ino != followed.st_ino || named.st_dev != followed.st_dev) {
    return absl::AbortedError(path_);  // the program has put another file there
  }
  absl::StatusOr<SpoolRecords> records = ReadSpoolRecords(*file, path_, recording_.damage);
  if (!records.ok()) return records.status();
  if (!AddModules(*records)) return absl::AbortedError(path_);
  const absl::Status read = FinishSpool(*file, *records, recording_, index_, merge_, interpreter_);
  const absl::Status whole = file->Whole(path_);
  return whole.ok() ? read : whole;
}

}  // namespace reprise::trace

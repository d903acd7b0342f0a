// A file as bytes in memory, read-only.
#ifndef REPRISE_TRACE_MAPPED_FILE_H_
#define REPRISE_TRACE_MAPPED_FILE_H_

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>

#include "absl/status/statusor.h"

namespace reprise::trace {

// Maps a regular file, so that holes cost nothing and only touched pages are resident. What can be
// read only once (a pipe, a device, kStandardStream) is read whole the first time that it is opened
// and kept until the process ends: every later Open gives the same bytes. Where a mapped file is
// cut short meanwhile, zeros stand in for what is gone, instead of a SIGBUS. Thread-safe.
class MappedFile {
 public:
  // NotFound, PermissionDenied or Unavailable with the text of errno; InvalidArgument when what is
  // no regular file gives more than 256 MiB.
  static absl::StatusOr<MappedFile> Open(const std::string& path);
  // As if a file held these bytes.
  static MappedFile FromBytes(std::string bytes);
  MappedFile(MappedFile&& other) noexcept;
  MappedFile& operator=(MappedFile&&) = delete;
  ~MappedFile();

  std::span<const uint8_t> bytes() const { return bytes_; }

  // DataLoss "PATH: cut short while it was read" when that has happened: whatever was read is then
  // not what the file held.
  absl::Status Whole(const std::string& path) const;

  // Brings all of a mapped file into the page cache, in single pages: where the system reads ahead
  // by itself it makes longer pieces, which a later look maps whole.
  void Fetch() const;

  // Says that [offset, offset + size) is not needed for now, so that it need not stay resident.
  void Release(uint64_t offset, uint64_t size) const;

 private:
  MappedFile() = default;
  static absl::StatusOr<MappedFile> Map(int descriptor, const std::string& path, size_t size);
  static MappedFile Holding(std::shared_ptr<const std::string> content);
  std::span<const uint8_t> bytes_;
  bool mapped_ = false;
  int guard_ = -1;  // of a mapped file: its entry in the table of the SIGBUS handler
  std::shared_ptr<const std::string> content_;  // of what is not mapped
};

// The status of the errno `error` for `path`: "PATH: text".
absl::Status FileError(int error, const std::string& path);

}  // namespace reprise::trace

#endif  // REPRISE_TRACE_MAPPED_FILE_H_

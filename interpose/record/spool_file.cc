#include "interpose/record/spool_file.h"

#include <errno.h>
#include <string.h>

#include "base/system_call.h"
#include "interpose/process/address_limit.h"
#include "interpose/process/address_map.h"
#include "interpose/process/process.h"

namespace reprise::interpose {

using trace::kSpoolAddressShift;
using trace::kSpoolChunkBytes;
using trace::kSpoolChunksOffset;
using trace::SpoolHeader;

namespace {

constexpr uint64_t kSmallestSpool = 64 << 20;

// OUTPUT/number-program.spool.
void NameSpool(char* path) {
  const char* output = process.session->output;
  const size_t length = strnlen(output, kPathBytes - 1);
  memcpy(path, output, length);
  char* at = path + length;
  *at++ = '/';
  for (uint32_t digit = 10000, number = process.image_number; digit > 0; digit /= 10) {
    *at++ = static_cast<char>('0' + number / digit % 10);
  }
  *at++ = '-';
  const char* name = ProgramName();
  const size_t name_length = strnlen(name, 64);
  memcpy(at, name, name_length);
  strcpy(at + name_length, ".spool");
}

// Why a file could not be made in the output directory.
const char* WhyNotMade(int error) {
  switch (error) {
    case EMFILE:
      return "not recorded: it had no file descriptor left";
    case ENFILE:
      return "not recorded: the system had no file descriptor left";
    case ENOSPC:
    case EDQUOT:
      return "not recorded: the disk of the output directory is full";
    default:
      break;
  }
  const long access = SystemCall(SYS_faccessat, AT_FDCWD,
                                 reinterpret_cast<long>(process.session->output), W_OK | X_OK);
  if (access == -ENOENT || access == -ENOTDIR) {
    return "not recorded: the output directory is gone, or cannot be seen from where it runs";
  }
  if (access == -EACCES || access == -EROFS) {
    return "not recorded: the output directory cannot be written to";
  }
  return "not recorded: a sandbox (seccomp, Landlock) forbids it to make files";
}

// Why that file could not be mapped, or the first page of it not be had.
const char* WhyNotMapped(int error) {
  switch (error) {
    case ENODEV:
      return "not recorded: the file system of the output directory has no shared mappings";
    case EPERM:
    case EACCES:
    case EINVAL:
    case ENOSYS:
      return "not recorded: a sandbox (seccomp), or a system before Linux 5.14, forbids what it "
             "takes";
    default:
      return "not recorded: no room for the spool (disk full, RLIMIT_FSIZE or RLIMIT_AS)";
  }
}

}  // namespace

SpoolFile OpenSpool() {
  char path[kPathBytes + 128];
  NameSpool(path);
  const int fd = OpenFile(path, O_RDWR | O_CREAT | O_EXCL);
  if (fd < 0) {
    ReportToLauncher(WhyNotMade(-fd));
    return {};
  }
  uint64_t bytes = SpoolBytes(LimitOf(RLIMIT_AS));
  // Growing a file beyond the limit would be a SIGXFSZ in the host.
  while (bytes > LimitOf(RLIMIT_FSIZE)) bytes /= 2;
  long mapped = -ENOMEM;
  for (; bytes >= kSmallestSpool / 64; bytes /= 2) {
    if (Failed(SystemCall(SYS_ftruncate, fd, static_cast<long>(bytes)))) continue;
    mapped = SystemCall(SYS_mmap, PlaceFor(kSpool.begin), static_cast<long>(bytes),
                        PROT_READ | PROT_WRITE, MAP_SHARED | FlagsToPlace(), fd, 0);
    if (!Failed(mapped) || mapped == -ENODEV) break;
  }
  const bool in_place = WritesInPlace(fd);
  CloseFile(fd);
  // Reading holes ahead costs a process with few events more than all else; with many it saves.
  constexpr uint64_t kFewEvents = kSpoolChunksOffset + 16 * kSpoolChunkBytes;
  if (!Failed(mapped)) {
    Advise(reinterpret_cast<void*>(mapped), bytes < kFewEvents ? bytes : kFewEvents, MADV_RANDOM);
  }
  auto* header = reinterpret_cast<SpoolHeader*>(mapped);
  const int error = Failed(mapped)
                        ? static_cast<int>(-mapped)
                        : PopulateOr(reinterpret_cast<char*>(mapped), trace::kSpoolHeaderBytes);
  if (error != 0) {
    SystemCall(SYS_unlinkat, AT_FDCWD, reinterpret_cast<long>(path), 0);
    ReportToLauncher(WhyNotMapped(error));
    return {};
  }
  // A child must not write into its parent's spool.
  Advise(header, bytes, MADV_DONTFORK);
  Advise(header, bytes, MADV_DONTDUMP);
  header->version = trace::kSpoolVersion;
  header->byte_order = trace::kSpoolByteOrder;
  header->address_shift = kSpoolAddressShift;
  header->pid = process.image->pid;
  header->start_time = process.image->start_time;
  header->place = process.image->place;
  header->parent_place = process.image->parent_place;
  header->start_order = process.image_number;
  header->copies_offset = bytes;
  header->threads = 1;
  memcpy(header->executable, process.executable, sizeof(header->executable));
  return {header, bytes, in_place};
}

}  // namespace reprise::interpose

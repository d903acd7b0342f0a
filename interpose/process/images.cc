#include "interpose/process/images.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/auxv.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/system_call.h"
#include "interpose/process/image_key.h"
#include "interpose/process/process.h"

namespace reprise::interpose {
namespace {

constexpr size_t kScratchBytes = 32 << 10;
alignas(4096) char scratch[kScratchBytes];  // used while an image is entered: by one thread

// Reads a whole small file; the bytes read, 0 when it cannot be.
size_t ReadSmallFile(const char* path, char* buffer, size_t capacity) {
  const int fd = OpenFile(path, O_RDONLY);
  if (fd < 0) return 0;
  size_t used = 0;
  while (used < capacity) {
    const long got = ReadFile(fd, buffer + used, capacity - used);
    if (got <= 0) break;
    used += got;
  }
  CloseFile(fd);
  return used;
}

// Field 22 of /proc/self/stat. The second field may hold spaces, but ends at the last ')'.
uint64_t StartTime() {
  const size_t bytes = ReadSmallFile("/proc/self/stat", scratch, kScratchBytes - 1);
  scratch[bytes] = 0;
  const char* at = strrchr(scratch, ')');
  for (int field = 2; at != nullptr && field < 22; ++field) {
    at = strchr(at + 1, ' ');
  }
  uint64_t value = 0;
  for (at = at != nullptr ? at + 1 : ""; *at >= '0' && *at <= '9'; ++at) {
    value = value * 10 + (*at - '0');
  }
  return value;
}

// Whether the session's folder is ours alone. A process may outlive its session: whoever makes a
// folder of that name then gives no orders.
bool IsPrivate(const char* directory, uid_t user) {
  struct stat info;
  return SystemCall(SYS_newfstatat, AT_FDCWD, reinterpret_cast<long>(directory),
                    reinterpret_cast<long>(&info), AT_SYMLINK_NOFOLLOW) == 0 &&
         S_ISDIR(info.st_mode) && info.st_uid == user && (info.st_mode & 077) == 0;
}

// The latest image of process `pid` that is not `except`; null when there is none.
ImageEntry* LatestImage(uint32_t pid, uint64_t start_time, const ImageEntry* except) {
  uint32_t count = __atomic_load_n(&process.registry->images, __ATOMIC_ACQUIRE);
  if (count > process.entries) count = process.entries;
  while (count-- > 0) {
    ImageEntry* entry = &process.registry->image[count];
    if (entry != except && entry->pid == pid &&
        __atomic_load_n(&entry->place, __ATOMIC_ACQUIRE) != 0 &&
        (start_time == 0 || entry->start_time == start_time)) {
      return entry;
    }
  }
  return nullptr;
}

// Null: the registry is full, or its disk is, or the program may not ask for memory (a sandbox).
ImageEntry* ClaimImage() {
  Registry* registry = process.registry;
  ImageEntry* entry;
  uint32_t number = __atomic_load_n(&registry->images, __ATOMIC_ACQUIRE);
  do {
    entry = &registry->image[number];
    // What is counted is looked at, so there must be a page behind it first.
    const int refused = number >= process.entries
                            ? EFAULT
                            : PopulateOr(reinterpret_cast<char*>(entry), sizeof(*entry));
    if (refused != 0) {
      const bool full = refused == EFAULT || refused == ENOMEM;
      __atomic_fetch_add(full ? &registry->left_out : &registry->forbidden, 1, __ATOMIC_RELAXED);
      return nullptr;
    }
  } while (!__atomic_compare_exchange_n(&registry->images, &number, number + 1, /*weak=*/false,
                                        __ATOMIC_ACQ_REL, __ATOMIC_ACQUIRE));
  process.image_number = number;
  entry->pid = static_cast<uint32_t>(ProcessId());
  memcpy(entry->executable, process.executable, kPathBytes);
  return entry;
}

// Puts the name that was given to exec behind the executable's path, where there is room.
void KeepStartedName() {
  const auto* path = reinterpret_cast<const char*>(getauxval(AT_EXECFN));
  if (path == nullptr) return;
  const char* slash = strrchr(path, '/');
  const char* name = slash != nullptr ? slash + 1 : path;
  const size_t bytes = strnlen(name, kPathBytes), used = strlen(process.executable) + 1;
  const bool number = strspn(name, "0123456789") == bytes;  // /dev/fd/3, of fexecve
  if (number || used + bytes + 1 > kPathBytes) return;
  memcpy(process.executable + used, name, bytes + 1);
}

}  // namespace

const char* ProgramName() {
  const size_t used = strlen(process.executable) + 1;
  if (used < kPathBytes && process.executable[used] != 0) return process.executable + used;
  const char* slash = strrchr(process.executable, '/');
  return slash != nullptr ? slash + 1 : process.executable;
}

void* MapSessionFile(const char* directory, const char* name, Range range, bool writable,
                     uint64_t most) {
  char path[kPathBytes + 32];
  const size_t length = strnlen(directory, kPathBytes - 1);
  memcpy(path, directory, length);
  strcpy(path + length, name);
  const int fd = OpenFile(path, (writable ? O_RDWR : O_RDONLY) | O_NOFOLLOW | O_NONBLOCK);
  if (fd < 0) return nullptr;
  struct stat info;
  const auto user = static_cast<uid_t>(SystemCall(SYS_geteuid));
  if (SystemCall(SYS_fstat, fd, reinterpret_cast<long>(&info)) != 0 || info.st_uid != user ||
      !S_ISREG(info.st_mode) || static_cast<uint64_t>(info.st_size) > range.bytes ||
      !IsPrivate(directory, user)) {
    CloseFile(fd);
    return nullptr;
  }
  const uint64_t bytes = static_cast<uint64_t>(info.st_size);
  const long result =
      SystemCall(SYS_mmap, PlaceFor(range.begin), static_cast<long>(bytes < most ? bytes : most),
                 PROT_READ | (writable ? PROT_WRITE : 0), MAP_SHARED | FlagsToPlace(), fd, 0);
  CloseFile(fd);
  return Failed(result) ? nullptr : reinterpret_cast<void*>(result);
}

bool RegisterImage() {
  const long length = SystemCall(SYS_readlinkat, AT_FDCWD, reinterpret_cast<long>("/proc/self/exe"),
                                 reinterpret_cast<long>(process.executable), kPathBytes - 1);
  process.executable[length > 0 ? length : 0] = 0;
  KeepStartedName();
  ImageEntry* entry = ClaimImage();
  if (entry == nullptr) return false;
  entry->start_time = StartTime();
  // After an exec the process has an earlier image; otherwise the parent process has one. A forked
  // child stands where its parent stands, whether or not it allocated before it called exec.
  const ImageEntry* parent = LatestImage(entry->pid, entry->start_time, entry);
  if (parent == nullptr) {
    parent = LatestImage(static_cast<uint32_t>(SystemCall(SYS_getppid)), 0, entry);
  }
  if (parent != nullptr) {
    entry->parent_place = parent->forked != 0 ? parent->parent_place : parent->place;
  }
  char directory[kPathBytes];
  if (Failed(SystemCall(SYS_getcwd, reinterpret_cast<long>(directory), sizeof(directory)))) {
    directory[0] = 0;
  }
  const size_t bytes = ReadSmallFile("/proc/self/cmdline", scratch, kScratchBytes);
  const uint64_t place = Place(entry->parent_place, process.executable, scratch, bytes, directory);
  process.image = entry;
  __atomic_store_n(&entry->place, place, __ATOMIC_RELEASE);
  return true;
}

ImageEntry* RegisterForkedImage(uint32_t fork_number) {
  const ImageEntry* parent = process.image;
  ImageEntry* entry = ClaimImage();
  if (entry == nullptr) return nullptr;
  entry->start_time = StartTime();
  entry->parent_place = parent->forked != 0 ? parent->parent_place : parent->place;
  entry->forked = 1;
  process.image = entry;
  __atomic_store_n(&entry->place, MixPath(parent->place, fork_number), __ATOMIC_RELEASE);
  return entry;
}

// Reads in small pieces, because a signal handler with a small stack may call this.
uint64_t PeakRss() {
  static constexpr char kName[] = "VmHWM:";
  constexpr size_t kNameBytes = sizeof(kName) - 1;
  const int fd = OpenFile("/proc/self/status", O_RDONLY);
  if (fd < 0) return 0;
  uint64_t kilobytes = 0;
  size_t matched = 0;
  bool ended = false;
  char piece[256];
  long bytes;
  while (!ended && (bytes = ReadFile(fd, piece, sizeof(piece))) > 0) {
    for (const char* at = piece; at < piece + bytes && !ended; ++at) {
      if (matched < kNameBytes) {
        matched = *at == kName[matched] ? matched + 1 : *at == kName[0] ? 1 : 0;
      } else if (*at >= '0' && *at <= '9') {
        kilobytes = kilobytes * 10 + (*at - '0');
      } else {
        ended = *at == '\n';
      }
    }
  }
  CloseFile(fd);
  return kilobytes << 10;
}

void DropImageScratch() { Advise(scratch, kScratchBytes, MADV_DONTNEED); }

}  // namespace reprise::interpose

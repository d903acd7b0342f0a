#include "interpose/exec.h"

#include <elf.h>
#include <errno.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "interpose/process.h"
#include "interpose/recorder.h"
#include "interpose/system_call.h"

namespace reprise::interpose {
namespace {

bool ReadAt(int fd, uint64_t offset, void* out, size_t bytes) {
  return SystemCall(SYS_pread64, fd, reinterpret_cast<long>(out), static_cast<long>(bytes),
                    static_cast<long>(offset)) == static_cast<long>(bytes);
}

// Of a program; 1 for what is none. Piece by piece, because stacks may be small here.
int HasInterpreter(int fd) {
  Elf64_Ehdr header;
  if (!ReadAt(fd, 0, &header, sizeof(header)) || memcmp(header.e_ident, ELFMAG, SELFMAG) != 0) {
    return 1;  // a script: its interpreter is started in this image's place
  }
  if (header.e_ident[EI_CLASS] != ELFCLASS64) return 0;
  for (int i = 0; i < header.e_phnum; ++i) {
    Elf64_Phdr segment;
    if (!ReadAt(fd, header.e_phoff + static_cast<uint64_t>(i) * sizeof(segment), &segment,
                sizeof(segment)) ||
        segment.p_type == PT_INTERP) {
      return 1;
    }
  }
  return 0;
}

// 1: can be preloaded; 0: cannot; -1: there is no such program here.
int Preloadable(const char* path) {
  struct stat info;
  if (SystemCall(SYS_newfstatat, AT_FDCWD, reinterpret_cast<long>(path),
                 reinterpret_cast<long>(&info), 0) != 0 ||
      !S_ISREG(info.st_mode) || (info.st_mode & 0111) == 0) {
    return -1;
  }
  if ((info.st_mode & (S_ISUID | S_ISGID)) != 0) return 0;
  const int fd = OpenFile(path, O_RDONLY);
  if (fd < 0) return 1;  // may be run but not read: nobody knows
  const int preloadable = HasInterpreter(fd);
  CloseFile(fd);
  return preloadable;
}

void Count(int preloadable) {
  if (preloadable != 0) return;
  __atomic_fetch_add(&process.image->unpreloadable, 1, __ATOMIC_RELAXED);
  if (!Forked()) CountUnpreloadable();
}

}  // namespace

void NoteStart(const char* path, bool search) {
  if (process.image == nullptr || path == nullptr) return;
  const int before = errno;
  if (!search || strchr(path, '/') != nullptr) {
    Count(Preloadable(path));
  } else {
    const char* directories = nullptr;
    for (char** variable = environ; variable != nullptr && *variable != nullptr; ++variable) {
      if (strncmp(*variable, "PATH=", 5) == 0) directories = *variable + 5;
    }
    const size_t name = strlen(path);
    char candidate[kPathBytes];
    for (const char* at = directories != nullptr ? directories : "/bin:/usr/bin"; *at != 0;) {
      const size_t length = strcspn(at, ":");
      if (length + name + 2 < sizeof(candidate)) {
        memcpy(candidate, at, length);
        candidate[length] = '/';
        memcpy(candidate + length + 1, path, name + 1);
        const int preloadable = Preloadable(candidate);
        if (preloadable >= 0) {
          Count(preloadable);
          break;
        }
      }
      at += length;
      if (*at == ':') ++at;
    }
  }
  errno = before;
}

void BeforeExec() {
  if (!IsOwnImage()) return;
  NoteEnd();
  EndRecording();
}

void ExecFailed() {
  if (IsOwnImage()) ResumeRecording();
}

}  // namespace reprise::interpose

#include "interpose/process/preloadable.h"

#include <elf.h>
#include <string.h>
#include <sys/stat.h>

#include "base/system_call.h"

namespace reprise::interpose {
namespace {

#if defined(__aarch64__)
constexpr int kMachine = EM_AARCH64;
#else
constexpr int kMachine = EM_X86_64;
#endif
constexpr int kMostInterpreters = 4;      // as the kernel follows scripts
constexpr uint32_t kMostVersions = 4096;  // that a file is believed to have

// The hash of a version's name, as ELF files have it.
constexpr uint32_t VersionHash(const char* name) {
  uint32_t hash = 0;
  for (; *name != 0; ++name) {
    hash = (hash << 4) + static_cast<unsigned char>(*name);
    hash = (hash ^ (hash >> 24 & 0xf0)) & 0x0fffffff;
  }
  return hash;
}
// glibc's loader has had it since it had _dl_find_object, without which nothing of ours works.
constexpr char kLoaderVersion[] = "GLIBC_2.35";

// Files are read piece by piece, because stacks may be small here.
class File {
 public:
  explicit File(const char* path) : fd_(OpenFile(path, O_RDONLY | O_NONBLOCK)) {}
  ~File() {
    if (fd_ >= 0) CloseFile(fd_);
  }
  File(const File&) = delete;
  File& operator=(const File&) = delete;

  bool is_open() const { return fd_ >= 0; }
  long Read(uint64_t offset, void* out, size_t bytes) const {
    return SystemCall(SYS_pread64, fd_, reinterpret_cast<long>(out), static_cast<long>(bytes),
                      static_cast<long>(offset));
  }
  template <typename T>
  bool Read(uint64_t offset, T* out) const {
    return Read(offset, out, sizeof(T)) == static_cast<long>(sizeof(T));
  }

 private:
  int fd_;
};

// Where in a 64-bit ELF file what lies that is looked at here. 0: nowhere.
struct Elf {
  Elf64_Ehdr header;
  uint64_t loader, loader_bytes;  // its name
  uint64_t defined, definitions;  // versions: the first one, and how many
  uint64_t needed, files;         // the same by the file that they are needed of
  uint64_t strings;
  uint64_t flags;  // DT_FLAGS_1
};

// Calls visit(segment) for each until it returns true.
template <typename Visit>
void ForEachSegment(const File& file, const Elf& elf, Visit visit) {
  for (int i = 0; i < elf.header.e_phnum; ++i) {
    Elf64_Phdr segment;
    if (!file.Read(elf.header.e_phoff + static_cast<uint64_t>(i) * sizeof(segment), &segment) ||
        visit(segment)) {
      return;
    }
  }
}

uint64_t OffsetOf(const File& file, const Elf& elf, uint64_t address) {
  uint64_t offset = 0;
  ForEachSegment(file, elf, [&](const Elf64_Phdr& segment) {
    if (segment.p_type != PT_LOAD || address - segment.p_vaddr >= segment.p_filesz) return false;
    offset = segment.p_offset + (address - segment.p_vaddr);
    return true;
  });
  return offset;
}

void FindVersions(const File& file, uint64_t dynamic, uint64_t bytes, Elf* elf) {
  Elf64_Dyn entry;
  for (uint64_t at = 0; at + sizeof(entry) <= bytes && file.Read(dynamic + at, &entry);
       at += sizeof(entry)) {
    const uint64_t value = entry.d_un.d_val;
    if (entry.d_tag == DT_NULL) return;
    if (entry.d_tag == DT_VERDEF) elf->defined = OffsetOf(file, *elf, value);
    if (entry.d_tag == DT_VERDEFNUM) elf->definitions = value;
    if (entry.d_tag == DT_VERNEED) elf->needed = OffsetOf(file, *elf, value);
    if (entry.d_tag == DT_VERNEEDNUM) elf->files = value;
    if (entry.d_tag == DT_STRTAB) elf->strings = OffsetOf(file, *elf, value);
    if (entry.d_tag == DT_FLAGS_1) elf->flags = value;
  }
}

// False: it is no ELF file of our kind that can be read.
bool ReadElf(const File& file, Elf* elf) {
  *elf = {};
  if (!file.Read(0, &elf->header) || memcmp(elf->header.e_ident, ELFMAG, SELFMAG) != 0 ||
      elf->header.e_ident[EI_CLASS] != ELFCLASS64 || elf->header.e_machine != kMachine) {
    return false;
  }
  Elf64_Phdr dynamic{};
  ForEachSegment(file, *elf, [&](const Elf64_Phdr& segment) {
    if (segment.p_type == PT_INTERP) {
      elf->loader = segment.p_offset;
      elf->loader_bytes = segment.p_filesz;
    }
    if (segment.p_type == PT_DYNAMIC) dynamic = segment;
    return segment.p_type == PT_INTERP;  // of a program its loader is all that counts
  });
  if (elf->loader == 0) FindVersions(file, dynamic.p_offset, dynamic.p_filesz, elf);
  return true;
}

bool Defines(const File& file, const Elf& elf, uint32_t hash) {
  uint64_t at = elf.defined;
  for (uint64_t left = elf.definitions < kMostVersions ? elf.definitions : kMostVersions;
       at != 0 && left > 0; --left) {
    Elf64_Verdef version;
    if (!file.Read(at, &version)) return false;
    if (version.vd_hash == hash) return true;
    if (version.vd_next == 0) return false;
    at += version.vd_next;
  }
  return false;
}

// Whether `theirs`, a library that our library needs by the name `name`, has all versions that ours
// needs of it; else the name of one that is missing.
bool HasVersions(const File& ours, const Elf& our_elf, const char* name, const File& theirs,
                 const Elf& their_elf, char* missing, size_t missing_bytes) {
  uint64_t at = our_elf.needed;
  for (uint64_t file = 0; at != 0 && file < our_elf.files && file < kMostVersions; ++file) {
    Elf64_Verneed need;
    char needed_of[16] = {};
    if (!ours.Read(at, &need)) return true;
    ours.Read(our_elf.strings + need.vn_file, needed_of, sizeof(needed_of) - 1);
    uint64_t version = at + need.vn_aux;
    for (int i = 0; strcmp(needed_of, name) == 0 && i < need.vn_cnt; ++i) {
      Elf64_Vernaux wanted;
      if (!ours.Read(version, &wanted)) return true;
      if (!Defines(theirs, their_elf, wanted.vna_hash)) {
        ours.Read(our_elf.strings + wanted.vna_name, missing, missing_bytes - 1);
        return false;
      }
      version += wanted.vna_next;
    }
    if (need.vn_next == 0) break;
    at += need.vn_next;
  }
  return true;
}

// The libc.so.6 that lies where the loader does, links followed. False: the path is too long.
bool NameLibc(const char* loader, char* path, size_t capacity) {
  static constexpr char kName[] = "libc.so.6";
  constexpr int kMostLinks = 8;
  if (strlen(loader) >= capacity) return false;
  strcpy(path, loader);
  for (int link = 0; link < kMostLinks; ++link) {
    char* slash = strrchr(path, '/');
    if (slash == nullptr) return false;
    char target[256];
    const long bytes = SystemCall(SYS_readlinkat, AT_FDCWD, reinterpret_cast<long>(path),
                                  reinterpret_cast<long>(target), sizeof(target) - 1);
    const bool is_link = bytes > 0;
    if (is_link) target[bytes] = 0;
    const char* next = is_link ? target : kName;
    char* to = next[0] == '/' ? path : slash + 1;
    if (strlen(next) + static_cast<size_t>(to - path) >= capacity) return false;
    strcpy(to, next);
    if (!is_link) return true;
  }
  return false;
}

// Of the loader at `path`, open as `file`.
Obstacle CheckLoader(const char* path, const File& file, const char* library, ProgramCheck* check) {
  Elf loader, libc, ours;
  if (!file.is_open()) return Obstacle::kNone;  // then the program does not start in any case
  if (!ReadElf(file, &loader) || loader.definitions == 0) return Obstacle::kOtherLibrary;
  const File our_file(library);
  if (!our_file.is_open()) return Obstacle::kOutOfReach;
  if (!ReadElf(our_file, &ours)) return Obstacle::kNone;
  if (!Defines(file, loader, VersionHash(kLoaderVersion))) {
    if (!Defines(file, loader, VersionHash("GLIBC_2.2.5")) &&
        !Defines(file, loader, VersionHash("GLIBC_2.17"))) {
      return Obstacle::kOtherLibrary;
    }
    memcpy(check->version, kLoaderVersion, sizeof(kLoaderVersion));
    return Obstacle::kOldLibrary;
  }
  char libc_path[512];
  if (!NameLibc(path, libc_path, sizeof(libc_path))) return Obstacle::kNone;
  const File libc_file(libc_path);
  if (!libc_file.is_open() || !ReadElf(libc_file, &libc)) return Obstacle::kNone;
  if (libc.loader != 0) {  // libc.so.6 can be run, and so has a loader
    ForEachSegment(libc_file, libc, [&](const Elf64_Phdr& segment) {
      if (segment.p_type != PT_DYNAMIC) return false;
      FindVersions(libc_file, segment.p_offset, segment.p_filesz, &libc);
      return true;
    });
  }
  return HasVersions(our_file, ours, "libc.so.6", libc_file, libc, check->version,
                     sizeof(check->version))
             ? Obstacle::kNone
             : Obstacle::kOldLibrary;
}

Obstacle CheckElf(const char* path, const File& file, const char* library, FileIdentity known,
                  ProgramCheck* check) {
  Elf elf;
  if (!ReadElf(file, &elf)) {
    if (elf.header.e_ident[EI_CLASS] != ELFCLASS64) return Obstacle::kOtherClass;
    return elf.header.e_machine != kMachine ? Obstacle::kOtherMachine : Obstacle::kNone;
  }
  const char* loader = path;
  if (elf.loader != 0) {
    if (elf.loader_bytes >= sizeof(check->loader) ||
        file.Read(elf.loader, check->loader, elf.loader_bytes) !=
            static_cast<long>(elf.loader_bytes)) {
      return Obstacle::kNone;
    }
    check->loader[elf.loader_bytes] = 0;
    loader = check->loader;
  } else if (elf.header.e_type != ET_DYN || (elf.flags & DF_1_PIE) != 0) {
    return Obstacle::kStatic;  // any other file without a loader is one: `ld.so PROGRAM`
  }
  const FileIdentity identity = IdentityOf(loader);
  if (identity.inode == known.inode && identity.device == known.device && known.inode != 0) {
    const bool in_reach =
        !Failed(SystemCall(SYS_faccessat, AT_FDCWD, reinterpret_cast<long>(library), R_OK));
    return in_reach ? Obstacle::kNone : Obstacle::kOutOfReach;
  }
  if (loader == path) return CheckLoader(path, file, library, check);
  return CheckLoader(loader, File(loader), library, check);
}

// The interpreter of a script, whose first bytes are `line`; it ends where the name does.
const char* InterpreterIn(char* line) {
  char* name = line + 2;
  name += strspn(name, " \t");
  name[strcspn(name, " \t\n")] = 0;
  return name;
}

}  // namespace

FileIdentity IdentityOf(const char* path) {
  struct stat info;
  if (SystemCall(SYS_newfstatat, AT_FDCWD, reinterpret_cast<long>(path),
                 reinterpret_cast<long>(&info), 0) != 0) {
    return {};
  }
  return {info.st_dev, info.st_ino};
}

void CheckProgram(const char* path, const char* library, FileIdentity known, ProgramCheck* check) {
  check->obstacle = Obstacle::kTooDeep;
  check->file[0] = check->loader[0] = 0;
  memset(check->version, 0, sizeof(check->version));
  for (int depth = 0; depth <= kMostInterpreters; ++depth) {
    struct stat info;
    if (SystemCall(SYS_newfstatat, AT_FDCWD, reinterpret_cast<long>(path),
                   reinterpret_cast<long>(&info), 0) != 0 ||
        !S_ISREG(info.st_mode) || (info.st_mode & 0111) == 0) {
      check->obstacle = Obstacle::kAbsent;
      return;
    }
    check->obstacle = Obstacle::kSetuid;
    if ((info.st_mode & (S_ISUID | S_ISGID)) != 0) return;
    check->obstacle = Obstacle::kCapabilities;
    if (SystemCall(SYS_getxattr, reinterpret_cast<long>(path),
                   reinterpret_cast<long>("security.capability")) > 0) {
      return;
    }
    const File file(path);
    char start[sizeof(check->file)] = {};
    check->obstacle = Obstacle::kNone;
    if (!file.is_open()) return;
    file.Read(0, start, sizeof(start) - 1);
    if (memcmp(start, ELFMAG, SELFMAG) == 0) {
      check->obstacle = CheckElf(path, file, library, known, check);
      return;
    }
    check->obstacle = Obstacle::kNoFormat;
    if (start[0] != '#' || start[1] != '!') return;
    const char* interpreter = InterpreterIn(start);
    if (*interpreter == 0) return;
    strcpy(check->file, interpreter);
    path = check->file;
  }
  check->file[0] = 0;
  check->obstacle = Obstacle::kTooDeep;
}

void CheckCommand(const char* path, const char* library, FileIdentity known, ProgramCheck* check) {
  CheckProgram(path, library, known, check);
  if (check->obstacle != Obstacle::kNoFormat) return;
  CheckProgram(kShell, library, known, check);
  if (check->file[0] == 0) strcpy(check->file, kShell);
}

}  // namespace reprise::interpose

#include "cli/program.h"

#include <elf.h>
#include <sys/stat.h>
#include <sys/xattr.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"

namespace reprise::cli {
namespace {

#if defined(__aarch64__)
constexpr int kMachine = EM_AARCH64;
#else
constexpr int kMachine = EM_X86_64;
#endif
constexpr int kMostInterpreters = 4;  // as the kernel follows scripts

absl::Status Refuse(const std::string& path, const char* why) {
  return absl::FailedPreconditionError(absl::StrCat(path, ": cannot be preloaded: ", why));
}

bool IsExecutableFile(const std::string& path) {
  struct stat info;
  return stat(path.c_str(), &info) == 0 && S_ISREG(info.st_mode) && access(path.c_str(), X_OK) == 0;
}

absl::Status CheckElf(const std::string& path, std::ifstream& file) {
  Elf64_Ehdr header{};
  file.seekg(0);
  file.read(reinterpret_cast<char*>(&header), sizeof(header));
  if (file.gcount() < EI_NIDENT || header.e_ident[EI_CLASS] != ELFCLASS64) {
    return Refuse(path, "it is a 32-bit program");
  }
  if (header.e_machine != kMachine) return Refuse(path, "it is a program for another processor");
  for (int i = 0; i < header.e_phnum; ++i) {
    Elf64_Phdr segment{};
    file.clear();
    file.seekg(static_cast<std::streamoff>(header.e_phoff) + i * header.e_phentsize);
    if (!file.read(reinterpret_cast<char*>(&segment), sizeof(segment))) break;
    if (segment.p_type == PT_INTERP) return absl::OkStatus();
  }
  return Refuse(path, "it is statically linked");
}

}  // namespace

absl::StatusOr<std::string> FindProgram(const std::string& name) {
  if (name.empty()) return absl::NotFoundError("the program's name is empty: not found");
  if (name.find('/') != std::string::npos) {
    if (access(name.c_str(), F_OK) != 0) {
      return absl::NotFoundError(absl::StrCat(name, ": ", std::strerror(errno)));
    }
    if (IsExecutableFile(name)) return name;
    return absl::PermissionDeniedError(absl::StrCat(name, ": not an executable file"));
  }
  const char* path = std::getenv("PATH");
  bool found = false;
  for (absl::string_view directory :
       absl::StrSplit(path != nullptr ? path : "/usr/bin:/bin", ':')) {
    const std::string candidate = absl::StrCat(directory.empty() ? "." : directory, "/", name);
    if (IsExecutableFile(candidate)) return candidate;
    found = found || access(candidate.c_str(), F_OK) == 0;
  }
  if (found) return absl::PermissionDeniedError(absl::StrCat(name, ": not an executable file"));
  return absl::NotFoundError(absl::StrCat(name, ": not found in PATH"));
}

absl::StatusOr<std::string> FindPreloadable(const std::string& name) {
  absl::StatusOr<std::string> path = FindProgram(name);
  if (!path.ok()) return path;
  absl::Status status = CheckPreloadable(*path);
  return status.ok() ? path : status;
}

absl::Status CheckPreloadable(const std::string& path) {
  std::string current = path;
  for (int depth = 0; depth <= kMostInterpreters; ++depth) {
    struct stat info;
    if (stat(current.c_str(), &info) != 0) {
      return absl::FailedPreconditionError(absl::StrCat(current, ": ", std::strerror(errno)));
    }
    if ((info.st_mode & (S_ISUID | S_ISGID)) != 0) {
      return Refuse(current, "it is a setuid or setgid program");
    }
    if (getxattr(current.c_str(), "security.capability", nullptr, 0) > 0) {
      return Refuse(current, "it has file capabilities");
    }
    std::ifstream file(current, std::ios::binary);
    char start[256] = {};
    file.read(start, sizeof(start) - 1);
    // A program that may be run but not read: the loader decides.
    if (!file.is_open()) return absl::OkStatus();
    if (std::memcmp(start, ELFMAG, SELFMAG) == 0) {
      file.clear();
      return CheckElf(current, file);
    }
    if (start[0] != '#' || start[1] != '!') return Refuse(current, "it is not an ELF program");
    const std::string line(start + 2, std::strcspn(start + 2, "\n"));
    const std::vector<std::string> words =
        absl::StrSplit(line, absl::ByAnyChar(" \t"), absl::SkipEmpty());
    if (words.empty()) return Refuse(current, "its first line names no interpreter");
    current = words[0];
  }
  return Refuse(path, "its interpreters are scripts of scripts");
}

}  // namespace reprise::cli

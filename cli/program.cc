#include "cli/program.h"

#include <dlfcn.h>
#include <sys/auxv.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <filesystem>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "interpose/process/preloadable.h"

namespace reprise::cli {
namespace {

namespace fs = std::filesystem;
using interpose::Obstacle;
using interpose::ProgramCheck;

bool IsExecutableFile(const std::string& path) {
  struct stat info;
  return stat(path.c_str(), &info) == 0 && S_ISREG(info.st_mode) && access(path.c_str(), X_OK) == 0;
}

// Why a program cannot be preloaded.
std::string Reason(const ProgramCheck& check) {
  switch (check.obstacle) {
    case Obstacle::kNoFormat:
      return "it is neither an ELF program nor a script";
    case Obstacle::kTooDeep:
      return "its interpreters are scripts of scripts";
    case Obstacle::kSetuid:
      return "it is a setuid or setgid program";
    case Obstacle::kCapabilities:
      return "it has file capabilities";
    case Obstacle::kStatic:
      return "it is statically linked";
    case Obstacle::kOtherClass:
      return "it is a 32-bit program";
    case Obstacle::kOtherMachine:
      return "it is a program for another processor";
    case Obstacle::kOtherLibrary:
      return absl::StrCat("it is not linked against glibc: its loader is ", check.loader);
    case Obstacle::kOldLibrary:
      return absl::StrCat("it is linked against a glibc that is too old, without ", check.version,
                          ": its loader is ", check.loader);
    case Obstacle::kOutOfReach:
      return "libreprise.so cannot be opened";
    case Obstacle::kNone:
    case Obstacle::kAbsent:
      break;
  }
  return "";
}

// The dynamic linker that this program was started by: it loads the library, which was built with
// it.
interpose::FileIdentity OwnLoader() {
  Dl_info info;
  const auto* base = reinterpret_cast<void*>(getauxval(AT_BASE));
  return base != nullptr && dladdr(base, &info) != 0 ? interpose::IdentityOf(info.dli_fname)
                                                     : interpose::FileIdentity{};
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

absl::StatusOr<std::string> FindLibrary() {
  std::error_code error;
  const fs::path binary = fs::read_symlink("/proc/self/exe", error).parent_path();
  if (error) {
    return absl::InternalError(
        absl::StrCat("/proc/self/exe: ", error.message(), ": is /proc mounted?"));
  }
  for (const char* candidate : {"../lib/libreprise.so", "../" REPRISE_LIBDIR "/libreprise.so"}) {
    const fs::path library = binary / candidate;
    if (fs::exists(library, error)) return fs::canonical(library, error).string();
  }
  return absl::InternalError(absl::StrCat("libreprise.so not found beside ", binary.string()));
}

absl::StatusOr<std::string> FindPreloadable(const std::string& name) {
  absl::StatusOr<std::string> path = FindProgram(name);
  if (!path.ok()) return path;
  const absl::StatusOr<std::string> library = FindLibrary();
  if (!library.ok()) return library.status();
  absl::Status status = CheckPreloadable(*path, *library);
  return status.ok() ? path : status;
}

absl::Status CheckPreloadable(const std::string& path, const std::string& library) {
  ProgramCheck check;
  interpose::CheckCommand(path.c_str(), library.c_str(), OwnLoader(), &check);
  const std::string file = check.file[0] != 0 ? check.file : path;
  if (check.obstacle == Obstacle::kNone) return absl::OkStatus();
  if (check.obstacle == Obstacle::kAbsent) {
    if (access(file.c_str(), F_OK) == 0) {
      return absl::FailedPreconditionError(absl::StrCat(file, ": not an executable file"));
    }
    return absl::NotFoundError(absl::StrCat(file, ": ", std::strerror(errno)));
  }
  return absl::FailedPreconditionError(
      absl::StrCat(file, ": cannot be preloaded: ", Reason(check)));
}

}  // namespace reprise::cli

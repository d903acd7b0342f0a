#include "trace/module_file.h"

#include <elf.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <bit>
#include <cerrno>
#include <cstdint>
#include <cstring>
#include <string_view>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/string_view.h"

namespace reprise::trace {
namespace {

constexpr uint64_t kMostRatio = 64;       // of compressed sections; real ones have less than 10
constexpr uint64_t kFreeBytes = 1 << 20;  // that a section may claim whatever its size
constexpr char kDebugFolder[] = "/usr/lib/debug/";  // the superuser's
constexpr uint64_t kMostSections = 100'000;
constexpr uint64_t kMostNames = 16 << 20;  // bytes

class Elf {
 public:
  Elf(int descriptor, uint64_t bytes) : descriptor_(descriptor), bytes_(bytes) {}

  // Empty, or what is wrong with it. `may_name`: its debug information may lie in another file.
  std::string Check(bool may_name) {
    if (!Read(0, &header_, sizeof(header_)) || std::memcmp(header_.e_ident, ELFMAG, SELFMAG) != 0) {
      return "no ELF file";
    }
    constexpr int kOrder = std::endian::native == std::endian::little ? ELFDATA2LSB : ELFDATA2MSB;
    if (header_.e_ident[EI_CLASS] != ELFCLASS64 || header_.e_ident[EI_DATA] != kOrder) {
      return "an ELF file for another machine";
    }
    if (header_.e_shoff == 0) return {};
    if (!ReadSections()) return "its section table does not lie in it";
    for (const Elf64_Shdr& section : sections_) {
      if (std::string problem = CheckSection(section); !problem.empty()) return problem;
    }
    return names_other_ && has_debug_information_ && !may_name
               ? "its debug information names another file"
               : "";
  }
  bool has_packed_symbols() const { return has_packed_symbols_; }

 private:
  bool Read(uint64_t offset, void* to, size_t count) const {
    return offset <= bytes_ && count <= bytes_ - offset &&
           pread(descriptor_, to, count, static_cast<off_t>(offset)) == static_cast<ssize_t>(count);
  }

  bool ReadSections() {
    Elf64_Shdr first;
    if (header_.e_shentsize != sizeof(first) || !Read(header_.e_shoff, &first, sizeof(first))) {
      return false;
    }
    const uint64_t count = header_.e_shnum != 0 ? header_.e_shnum : first.sh_size;
    const uint64_t names = header_.e_shstrndx != SHN_XINDEX ? header_.e_shstrndx : first.sh_link;
    if (count > kMostSections || count == 0) return false;
    sections_.resize(count);
    if (!Read(header_.e_shoff, sections_.data(), count * sizeof(first))) return false;
    if (names == SHN_UNDEF) return true;
    if (names >= count || sections_[names].sh_size > kMostNames) return false;
    names_.resize(sections_[names].sh_size);
    return Read(sections_[names].sh_offset, names_.data(), names_.size());
  }

  std::string_view NameOf(const Elf64_Shdr& section) const {
    if (section.sh_name >= names_.size()) return {};
    const std::string_view rest = std::string_view(names_).substr(section.sh_name);
    return rest.substr(0, rest.find('\0'));
  }

  std::string CheckSection(const Elf64_Shdr& section) {
    const std::string_view name = NameOf(section);
    names_other_ |= name == ".gnu_debugaltlink";
    has_debug_information_ |= name.starts_with(".debug_") || name.starts_with(".zdebug_");
    if (name == ".gnu_debugdata") has_packed_symbols_ = true;
    uint64_t claimed = 0;
    if ((section.sh_flags & SHF_COMPRESSED) != 0) {
      Elf64_Chdr compressed;
      if (!Read(section.sh_offset, &compressed, sizeof(compressed))) {
        return "a compressed section does not lie in it";
      }
      claimed = compressed.ch_size;
    } else if (name.starts_with(".zdebug")) {
      uint8_t header[12];  // "ZLIB", and the size, the highest byte first
      if (!Read(section.sh_offset, header, sizeof(header))) {
        return "a compressed section does not lie in it";
      }
      for (int i = 4; i < 12; ++i) claimed = claimed << 8 | header[i];
    }
    const uint64_t size = std::min(section.sh_size, bytes_);
    if (claimed <= kFreeBytes || claimed / kMostRatio <= size) return {};
    return absl::StrCat("a compressed section of ", size, " bytes claims ", claimed,
                        " (expected at most ", kMostRatio, " times as many)");
  }

  const int descriptor_;
  const uint64_t bytes_;
  Elf64_Ehdr header_{};
  std::vector<Elf64_Shdr> sections_;
  std::string names_;
  bool has_packed_symbols_ = false;
  bool names_other_ = false, has_debug_information_ = false;
};

}  // namespace

bool IsBuildId(const std::string& text) {
  constexpr size_t kMostDigits = 64;
  return text.size() >= 2 && text.size() <= kMostDigits && text.size() % 2 == 0 &&
         text.find_first_not_of("0123456789abcdef") == std::string::npos;
}

std::string FileIdentity(const std::string& path) {
  struct stat info {};
  if (!path.starts_with('/') || stat(path.c_str(), &info) != 0 || !S_ISREG(info.st_mode)) return {};
  return absl::StrFormat("%x %x %x %x.%x", info.st_dev, info.st_ino, info.st_size,
                         info.st_ctim.tv_sec, info.st_ctim.tv_nsec);
}

absl::StatusOr<ModuleFile> OpenModuleFile(const std::string& path) {
  const auto refuse = [&path](absl::string_view what) {
    return absl::InvalidArgumentError(absl::StrCat(path, ": ", what));
  };
  if (!path.starts_with('/')) return refuse("no absolute path");
  struct stat info {};
  if (stat(path.c_str(), &info) != 0) {
    return absl::NotFoundError(absl::StrCat(path, ": ", std::strerror(errno)));
  }
  // Before it is opened, because to open a device can do something.
  if (!S_ISREG(info.st_mode)) return refuse("no regular file");
  const int descriptor = open(path.c_str(), O_RDONLY | O_NONBLOCK | O_NOCTTY | O_CLOEXEC);
  if (descriptor < 0) return absl::NotFoundError(absl::StrCat(path, ": ", std::strerror(errno)));
  std::string problem = "no regular file";
  bool has_packed_symbols = false;
  if (fstat(descriptor, &info) == 0 && S_ISREG(info.st_mode)) {
    Elf elf(descriptor, static_cast<uint64_t>(info.st_size));
    problem = elf.Check(path.starts_with(kDebugFolder));
    has_packed_symbols = elf.has_packed_symbols();
  }
  if (problem.empty()) return ModuleFile{descriptor, has_packed_symbols};
  close(descriptor);
  return refuse(problem);
}

}  // namespace reprise::trace

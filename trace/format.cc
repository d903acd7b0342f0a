#include "trace/format.h"

#include <algorithm>
#include <cstring>
#include <string_view>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "trace/compact_format.h"
#include "trace/spool_format.h"

namespace reprise::trace {
namespace {

// The first line that is neither blank nor a comment, from its first character that says something.
std::string_view FirstLine(const MappedFile& file) {
  constexpr size_t kFar = 64 << 10;
  std::string_view text(reinterpret_cast<const char*>(file.bytes().data()),
                        std::min(file.bytes().size(), kFar));
  if (text.substr(0, 3) == "\xef\xbb\xbf") text.remove_prefix(3);
  while (!text.empty()) {
    const std::string_view line = text.substr(0, text.find('\n'));
    text.remove_prefix(std::min(line.size() + 1, text.size()));
    const size_t begin = line.find_first_not_of(" \t\r");
    if (begin != std::string_view::npos && line[begin] != '#') return line.substr(begin);
  }
  return {};
}

bool LooksAndroid(std::string_view line) {
  size_t digits = 0;
  while (digits < line.size() && absl::ascii_isdigit(line[digits])) ++digits;
  return digits > 0 && line.substr(digits, 1) == ":";
}

}  // namespace

Format DetectFormat(const MappedFile& file, const std::string& path) {
  const auto begins_with = [&file](uint64_t magic) {
    return file.bytes().size() >= sizeof(magic) &&
           std::memcmp(file.bytes().data(), &magic, sizeof(magic)) == 0;
  };
  if (begins_with(kSpoolMagic)) return Format::kSpool;
  if (begins_with(kCompactMagic)) return Format::kCompact;
  const std::string_view line = FirstLine(file);
  if (LooksAndroid(line)) return Format::kAndroid;
  if (!line.empty() && (line[0] == '{' || line[0] == '[')) return Format::kJson;
  if (absl::EndsWith(path, ".csv")) return Format::kCsv;
  if (absl::EndsWith(path, ".json")) return Format::kJson;
  if (line.find(',') != std::string_view::npos && line.find('\0') == std::string_view::npos) {
    return Format::kCsv;
  }
  return Format::kUnknown;
}

absl::StatusOr<Format> DetectFormat(const std::string& path) {
  const absl::StatusOr<MappedFile> file = MappedFile::Open(path);
  if (!file.ok()) return file.status();
  return DetectFormat(*file, path);
}

}  // namespace reprise::trace

#include "cli/recordings.h"

#include <unistd.h>

#include <cerrno>
#include <filesystem>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "cli/command.h"

namespace reprise::cli {
namespace {

namespace fs = std::filesystem;

bool IsTrace(const fs::path& path) {
  return path.extension() == ".trace" || path.extension() == ".spool";
}

std::vector<fs::path> TracesIn(const fs::path& directory, std::error_code& error) {
  std::vector<fs::path> traces;
  for (const auto& entry : fs::directory_iterator(directory, error)) {
    if (IsTrace(entry.path())) traces.push_back(entry.path());
  }
  return traces;
}

}  // namespace

absl::StatusOr<std::string> PrepareOutput(const std::string& path) {
  std::error_code error;
  fs::create_directories(path, error);
  if (error) return SystemError(error.value(), path);
  const fs::path directory = fs::canonical(path, error);
  if (error) return SystemError(error.value(), path);
  if (access(directory.c_str(), W_OK | X_OK) != 0) return SystemError(errno, path);
  if (directory.string().size() + 128 >= interpose::kPathBytes) {
    return SystemError(ENAMETOOLONG, path);
  }
  const std::vector<fs::path> earlier = TracesIn(directory, error);
  if (!earlier.empty()) {
    const fs::path old = directory.string() + ".old";
    fs::create_directories(old, error);
    for (const fs::path& trace : TracesIn(old, error)) fs::remove(trace, error);
    for (const fs::path& trace : earlier) {
      fs::rename(trace, old / trace.filename(), error);
      if (error) return SystemError(error.value(), trace.string());
    }
  }
  return directory.string();
}

void FinishRecordings(const std::string& directory, const LaunchResult& result) {
  (void)directory;
  (void)result;
}

}  // namespace reprise::cli

#include "cli/still_running.h"

#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <iterator>

#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "interpose/process/session.h"

namespace reprise::cli {
namespace {

std::string ReadAll(const std::filesystem::path& path) {
  std::ifstream file(path);
  return {std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>()};
}

}  // namespace

std::vector<RunningProcess> ProcessesOf(const std::string& session) {
  const std::string variable =
      absl::StrCat(interpose::kSessionVariable, "=", session, std::string(1, '\0'));
  std::vector<RunningProcess> found;
  std::error_code error;
  for (std::filesystem::directory_iterator at("/proc", error), end; !error && at != end;
       at.increment(error)) {
    uint32_t pid = 0;
    if (!absl::SimpleAtoi(at->path().filename().string(), &pid)) continue;
    if (pid == static_cast<uint32_t>(getpid())) continue;
    // One that has ended has no environment.
    const std::string environment = ReadAll(at->path() / "environ");
    const size_t place = environment.find(variable);
    if (place == std::string::npos || (place > 0 && environment[place - 1] != 0)) continue;
    std::string name = ReadAll(at->path() / "comm");
    if (absl::EndsWith(name, "\n")) name.pop_back();
    found.push_back({pid, name});
  }
  return found;
}

}  // namespace reprise::cli

#include "cli/machine_memory.h"

#include <sys/sysinfo.h>

#include <algorithm>
#include <fstream>
#include <string>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "cli/command.h"

namespace reprise::cli {
namespace {

// The number in a file; UINT64_MAX when it holds none ("max") or is not there.
uint64_t LimitIn(const std::string& path) {
  std::ifstream file(path);
  std::string text;
  uint64_t limit = 0;
  return file >> text && absl::SimpleAtoi(text, &limit) ? limit : UINT64_MAX;
}

// The least limit of the groups from `group` up, below `root`.
uint64_t LeastLimit(const std::string& root, std::string group, const char* file) {
  uint64_t least = LimitIn(absl::StrCat(root, "/", file));
  while (!group.empty() && group != "/") {
    least = std::min(least, LimitIn(absl::StrCat(root, group, "/", file)));
    group.resize(group.rfind('/') == std::string::npos ? 0 : group.rfind('/'));
  }
  return least;
}

// Lines are NUMBER:CONTROLLERS:GROUP; version 2 has number 0 and no controllers.
uint64_t CgroupLimit() {
  std::ifstream groups("/proc/self/cgroup");
  uint64_t least = UINT64_MAX;
  for (std::string line; std::getline(groups, line);) {
    const size_t first = line.find(':');
    const size_t second = line.find(':', first + 1);
    if (first == std::string::npos || second == std::string::npos) continue;
    const std::string controllers =
        absl::StrCat(",", line.substr(first + 1, second - first - 1), ",");
    const std::string group = line.substr(second + 1);
    if (controllers == ",,") {
      least = std::min(least, LeastLimit("/sys/fs/cgroup", group, "memory.max"));
    } else if (controllers.find(",memory,") != std::string::npos) {
      least = std::min(least, LeastLimit("/sys/fs/cgroup/memory", group, "memory.limit_in_bytes"));
    }
  }
  return least;
}

}  // namespace

uint64_t MachineMemory() {
  struct sysinfo info = {};
  const uint64_t machine =
      sysinfo(&info) == 0 ? uint64_t{info.totalram} * info.mem_unit : UINT64_MAX;
  return std::min(machine, CgroupLimit());
}

absl::Status FitsInMemory(const std::string& path, uint64_t max_load) {
  const uint64_t memory = MachineMemory();
  if (max_load <= memory / 2) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat(
      path, ": its blocks take ", HumanBytes(static_cast<double>(max_load)),
      " at one time, more than half of the memory (", HumanBytes(static_cast<double>(memory)),
      "): --no-touch performs it without writing to them"));
}

}  // namespace reprise::cli

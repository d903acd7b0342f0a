#include "tests/unit/trace/vectors.h"

#include <cstring>
#include <sstream>

namespace reprise::trace {

std::string DocumentVector(const std::string& name) {
  std::istringstream document(
      ReadFile(std::string(REPRISE_SOURCE_DIR) + "/docs/reference/trace_format.md"));
  std::string bytes;
  std::string line;
  bool inside = false;
  while (std::getline(document, line)) {
    if (line.rfind("```", 0) == 0) inside = line == "```hex " + name;
    const size_t colon = line.find(':');
    if (!inside || colon == std::string::npos) continue;
    size_t at = std::stoull(line.substr(0, colon), nullptr, 16);
    std::istringstream words(line.substr(colon + 1, line.find(';') - colon - 1));
    for (std::string word; words >> word; ++at) {
      if (bytes.size() <= at) bytes.resize(at + 1);
      bytes[at] = static_cast<char>(std::stoul(word, nullptr, 16));
    }
  }
  return bytes;
}

SpoolBuilder VectorSpool() {
  SpoolBuilder spool;
  spool.header.pid = 4711;
  spool.header.start_time = 1000;
  spool.header.threads = 2;
  spool.header.stack_base = 0x2a00c0000000;
  spool.Module("/bin/example", "\xab\xcd", 0x555555554000, 0x555555560000, 1);
  spool.Thread(0, 0, 0, 1, 1);
  spool.Stack(0, 7, {0x555555555234, 0x555555555400});
  spool.Allocate(0, 1, 0x555555600010, 100, kSpoolSmallMalloc, SiteWord(0x2a00c0000007, 3));
  spool.Thread(1, 1, 0, 0x1122334455667788, 2);
  spool.Allocate(1, 2, 0x555555600100, 40, kSpoolCalloc, SiteWord(0x555555555300, 9));
  spool.Free(0, 3, 0x555555600010, kSpoolReallocFree);
  spool.Free(1, 4, 0x555555600100);
  spool.Allocate(0, 5, 0x555555600200, 200, kSpoolReallocAlloc, SiteWord(0x555555555280, 3));
  spool.Usable(0, 5, 0x555555600200, 216);
  spool.Free(0, 5, 0x555555700000);
  spool.Seal(0);
  return spool;
}

}  // namespace reprise::trace

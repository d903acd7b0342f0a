#include "cli/explained.h"

#include <algorithm>
#include <cstdlib>
#include <string_view>

#include "trace/statistics.h"

namespace reprise::cli {
namespace {

struct Runtime {
  std::string_view name;  // what names of its executables begin with
  const char* advice;
};
constexpr Runtime kRuntimes[] = {
    {"python", "Python takes small objects from mmap unless PYTHONMALLOC=malloc is set"},
    {"pypy", "the objects of PyPy come from mmap: malloc does not see them"},
    {"php", "PHP has an allocator of its own unless USE_ZEND_ALLOC=0 is set"},
    {"beam", "Erlang has allocators of its own unless it is started with +Mea min"},
    {"java", "the Java heap comes from mmap: malloc sees the virtual machine's own memory"},
    {"node", "the JavaScript heap comes from mmap: malloc sees what is outside it"},
    {"ruby", "the slots of Ruby's objects come from mmap: malloc sees what they point to"},
    {"dotnet", "the managed heap comes from mmap: malloc sees what is outside it"},
    {"julia", "the objects of Julia come from mmap: malloc sees its larger arrays"},
};

}  // namespace

double ExplainedPercent(uint64_t max_load, uint64_t peak_rss) {
  return 100.0 * static_cast<double>(max_load) / static_cast<double>(peak_rss);
}

std::string RuntimeAdvice(const std::string& executable) {
  const std::string_view name = std::string_view(executable).substr(executable.rfind('/') + 1);
  for (const Runtime& runtime : kRuntimes) {
    if (!name.starts_with(runtime.name)) continue;
    // What starts here has our environment.
    const char* const allocator = std::getenv("PYTHONMALLOC");
    const bool heeded = runtime.name == "python" && allocator != nullptr &&
                        std::string_view(allocator).starts_with("malloc");
    return heeded ? "" : runtime.advice;
  }
  return {};
}

void LoadMeter::Add(const trace::Event& event) {
  const uint64_t bytes = trace::BlockBytes(event.size);
  if (event.kind == trace::EventKind::kAllocate) {
    most_ = std::max(most_, live_ += bytes);
  } else if (event.kind == trace::EventKind::kFree ||
             event.kind == trace::EventKind::kImpliedFree) {
    live_ -= bytes;
  }
}

}  // namespace reprise::cli

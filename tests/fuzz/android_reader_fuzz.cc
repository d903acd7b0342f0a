// Feeds the reader of Android's malloc text anything at all. What can be read is written and read
// again.
#include <cstddef>
#include <cstdint>
#include <string>

#include "tests/fuzz/read_trace.h"
#include "trace/formats/android.h"

namespace {

using namespace reprise;  // NOLINT(google-build-using-namespace)
using fuzz::Require;

// As text; block 0 of each event's own file has the same name in both.
std::string Write(const trace::Recording& recording) {
  std::string text;
  const auto write = [&](const std::string& line) { text += line; };
  trace::AndroidWriter writer(write);
  trace::ForEachEvent(recording, [&](const trace::Event& event) { writer.Add(event); });
  writer.Finish();
  return text;
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  // Whatever it is, it is taken for such text.
  const std::string text = "1: " + std::string(reinterpret_cast<const char*>(data), size);
  trace::Recording recording;
  if (!fuzz::ReadAnyTrace(text, recording).ok()) return 0;
  const std::string written = Write(recording);
  if (written.empty()) return 0;
  trace::Recording again;
  Require(fuzz::ReadAnyTrace(written, again).ok());
  Require(again.events == recording.events);
  Require(again.allocations.size() == recording.allocations.size());
  for (size_t i = 0; i < again.allocations.size(); ++i) {
    Require(again.allocations[i].size == recording.allocations[i].size);
    Require(again.allocations[i].death == recording.allocations[i].death);
  }
  return 0;
}

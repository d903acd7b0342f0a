// Feeds the reader of Mondrian's JSON anything at all; the first byte says whether unknown fields
// are ignored ('i'). What can be read is written and read again.
#include <cstddef>
#include <cstdint>
#include <string>

#include "tests/fuzz/require.h"
#include "trace/formats/mondrian.h"

using namespace reprise;  // NOLINT(google-build-using-namespace)
using fuzz::Require;

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  if (size == 0) return 0;
  trace::MondrianOptions options;
  options.ignore_unknown = data[0] == 'i';
  options.segment = "s";
  const std::string text(reinterpret_cast<const char*>(data + 1), size - 1);
  const absl::StatusOr<trace::CsvInstance> read = trace::ParseMondrian(text, "fuzz", options);
  if (!read.ok()) {
    if (!absl::IsFailedPrecondition(read.status())) fuzz::RequireRefusal(read.status());
    return 0;
  }
  std::string written;
  trace::WriteMondrian(
      "s", 1, read->buffers.size(),
      [&](size_t i) {
        const trace::CsvBuffer& it = read->buffers[i];
        Require(it.lower < it.upper && it.size >= 0 && it.offset.has_value());
        return trace::MondrianBuffer{it.id, it.lower, it.upper, it.size, *it.offset};
      },
      [&](const std::string& piece) { written += piece; });
  const absl::StatusOr<trace::CsvInstance> again = trace::ParseMondrian(written, "fuzz", options);
  Require(again.ok() && again->buffers.size() == read->buffers.size());
  for (size_t i = 0; i < again->buffers.size(); ++i) {
    Require(again->buffers[i].offset == read->buffers[i].offset);
    Require(again->buffers[i].size == read->buffers[i].size);
  }
  return 0;
}

// Feeds the reader of comparisons (`report --compare`) anything at all; the first byte says whether
// unknown fields are ignored ('i').
#include <cstddef>
#include <cstdint>
#include <string>

#include "report/measured_facts.h"
#include "report/measured_json.h"
#include "tests/fuzz/require.h"

using namespace reprise;  // NOLINT(google-build-using-namespace)

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  if (size == 0) return 0;
  base::UnknownNames unknown(data[0] == 'i');
  const std::string text(reinterpret_cast<const char*>(data + 1), size - 1);
  const absl::StatusOr<nlohmann::json> comparison =
      report::ParseComparison(text, "fuzz", "1.trace", unknown);
  if (!comparison.ok()) {
    fuzz::RequireRefusal(comparison.status());
    return 0;
  }
  const auto text_of = [](const nlohmann::ordered_json& json) {
    return json.dump(-1, ' ', false, nlohmann::ordered_json::error_handler_t::replace);
  };
  text_of(report::MeasuredContenders(*comparison));
  text_of(report::MeasuredSeries(*comparison));
  return 0;
}

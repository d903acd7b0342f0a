// Feeds the reader of plan files, and the check of what a plan means, anything at all. The first
// byte says what the others are, so that a mutation gets past the checksum:
//   0     a whole file
//   1, 2  changes of a good plan, of one lane or of several, sealed here: per change offset / 256,
//         offset % 256, what to do (0 set the byte, 1 add to the 32-bit word there, 2 set the
//         64-bit word, 3 set it to 2^64 - 1 - value, 4 cut the file there), value
#include <xxhash.h>

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <string>
#include <utility>
#include <vector>

#include "replay/plan/plan_builder.h"
#include "replay/plan/plan_file.h"
#include "replay/plan/plan_verifier.h"
#include "tests/fuzz/require.h"
#include "tests/unit/plan/recordings.h"

namespace {

using namespace reprise;  // NOLINT(google-build-using-namespace)
using fuzz::Require;

struct Good {
  trace::Recording recording;
  std::string bytes;  // its plan
};

Good MakeGood(uint32_t threads) {
  Good good;
  good.recording =
      replay::RandomRecording({.allocations = 60, .threads = threads, .reallocs = 0.2}, threads);
  planner::Options options;
  options.strategy = "first_fit_by_size";
  options.threads = 1;
  good.bytes = replay::BuildPlan(good.recording, options, replay::LaneMode::kThread)->bytes;
  return good;
}

const Good& GoodPlan(bool several_lanes) {
  static const Good one = MakeGood(1), several = MakeGood(3);
  return several_lanes ? several : one;
}

std::string Changed(std::string bytes, const uint8_t* change, size_t size) {
  for (; size >= 4; change += 4, size -= 4) {
    const size_t offset = change[0] * size_t{256} + change[1];
    const uint64_t value = change[3];
    if (offset >= bytes.size()) continue;
    const size_t word = offset & ~size_t{7};
    const auto set = [&](size_t at, auto what) {
      if (at + sizeof(what) <= bytes.size()) std::memcpy(bytes.data() + at, &what, sizeof(what));
    };
    uint32_t half = 0;
    switch (change[2] % 5) {
      case 0:
        bytes[offset] = static_cast<char>(value);
        break;
      case 1:
        if ((offset & ~size_t{3}) + sizeof(half) > bytes.size()) break;
        std::memcpy(&half, bytes.data() + (offset & ~size_t{3}), sizeof(half));
        set(offset & ~size_t{3}, half + static_cast<uint32_t>(static_cast<int8_t>(value)));
        break;
      case 2:
        set(word, value);
        break;
      case 3:
        set(word, ~value);
        break;
      default:
        bytes.resize(offset);
    }
  }
  return bytes;
}

void Seal(std::string& bytes) {
  if (bytes.size() < sizeof(replay::PlanHeader)) return;
  replay::PlanHeader header;
  std::memcpy(&header, bytes.data(), sizeof(header));
  header.file_bytes = bytes.size();
  header.checksum = 0;
  std::memcpy(bytes.data(), &header, sizeof(header));
  header.checksum = XXH3_64bits(bytes.data(), bytes.size());
  std::memcpy(bytes.data(), &header, sizeof(header));
}

void Read(std::string bytes, const trace::Recording& recording) {
  const absl::StatusOr<replay::PlanFile> plan =
      replay::PlanFile::Parse(trace::MappedFile::FromBytes(std::move(bytes)), "fuzz");
  if (!plan.ok()) return fuzz::RequireRefusal(plan.status());
  const absl::Status verified = replay::VerifyPlan(*plan, "fuzz");
  if (!verified.ok() && !absl::IsResourceExhausted(verified)) fuzz::RequireRefusal(verified);
  const absl::StatusOr<std::vector<int64_t>> offsets = replay::PlanOffsets(*plan, recording);
  if (!offsets.ok()) return fuzz::RequireRefusal(offsets.status());
  Require(offsets->size() == recording.allocations.size());
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  if (size == 0) return 0;
  const Good& good = GoodPlan(data[0] == 2);
  if (data[0] == 0) {
    Read(std::string(reinterpret_cast<const char*>(data + 1), size - 1), good.recording);
    return 0;
  }
  std::string bytes = Changed(good.bytes, data + 1, size - 1);
  Seal(bytes);
  const bool same = bytes == good.bytes;
  const absl::StatusOr<replay::PlanFile> plan =
      replay::PlanFile::Parse(trace::MappedFile::FromBytes(bytes), "fuzz");
  Require(!same || (plan.ok() && replay::VerifyPlan(*plan, "fuzz").ok()));
  Read(std::move(bytes), good.recording);
  return 0;
}

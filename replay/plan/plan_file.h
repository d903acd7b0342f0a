// Plan files on disk.
#ifndef REPRISE_REPLAY_PLAN_PLAN_FILE_H_
#define REPRISE_REPLAY_PLAN_PLAN_FILE_H_

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "replay/plan/plan_format.h"
#include "trace/mapped_file.h"
#include "trace/recording.h"

namespace reprise::replay {

// A loop of a lane, by the lane's allocations in the recording: half-open, all passes.
struct PlannedLoop {
  uint64_t first_allocation = 0;
  uint64_t end_allocation = 0;
  uint64_t iterations = 0;  // of the program; not 0
};

// A plan file, mapped, and verified: its checksum is right, so its tables are what was written, and
// they lie in the file.
class PlanFile {
 public:
  // Errors, one line that begins with the path: it cannot be read (Unavailable, with the errno
  // text); it is no plan, is damaged or cut short (InvalidArgument, DataLoss); it is of a newer
  // version (Unimplemented). `descriptor`: the file that is read, already open; -1: the one at
  // `path`.
  static absl::StatusOr<PlanFile> Read(const std::string& path, int descriptor = -1);
  // The same of a file that is open; `path` is what errors call it.
  static absl::StatusOr<PlanFile> Parse(trace::MappedFile file, const std::string& path);

  const PlanHeader& header() const { return *At<PlanHeader>(0); }
  template <typename T>
  const T* table(const PlanTable& table) const {
    return At<T>(table.offset);
  }
  // The blocks of a lane, in the order of their births, those of a loop once.
  std::vector<PlanBlock> Blocks(const PlanLane& lane) const;
  std::vector<PlannedLoop> Loops(const PlanLane& lane) const;
  std::string String(uint32_t offset, uint32_t length) const {
    return std::string(table<char>(header().strings) + offset, length);
  }

 private:
  explicit PlanFile(trace::MappedFile file) : file_(std::move(file)) {}
  template <typename T>
  const T* At(uint64_t offset) const {
    return reinterpret_cast<const T*>(file_.bytes().data() + offset);
  }

  trace::MappedFile file_;
};

// Writes `bytes` as a whole: a temporary file beside `path`, then a rename.
absl::Status WritePlanFile(const std::string& path, const std::string& bytes);

// The offset of each allocation of `recording`, from the arena's start. InvalidArgument when the
// plan was made for another recording, or has a block outside its lane's box.
absl::StatusOr<std::vector<int64_t>> PlanOffsets(const PlanFile& plan,
                                                 const trace::Recording& recording);

// The plan files that `path` stands for: itself, or the *.plan files of a directory, by name.
absl::StatusOr<std::vector<std::string>> FindPlans(const std::string& path);

// Whether the file begins as a plan does.
bool IsPlan(const trace::MappedFile& file);

// OK when what lies at `path` can be replayed: a file or a folder, as each process maps its plan.
// InvalidArgument for a pipe, a device and standard input.
absl::Status CanBeReplayed(const std::string& path);

// The plan file for the trace at `trace`: `plan` itself, or the one of its name in the folder
// `plan`.
std::string PlanFor(const std::string& plan, const std::string& trace);

}  // namespace reprise::replay

#endif  // REPRISE_REPLAY_PLAN_PLAN_FILE_H_

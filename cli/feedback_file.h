// Reading what `reprise replay --stats` wrote, for `reprise plan --learn`.
#ifndef REPRISE_CLI_FEEDBACK_FILE_H_
#define REPRISE_CLI_FEEDBACK_FILE_H_

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "base/unknown_names.h"
#include "replay/plan/feedback.h"
#include "trace/recording.h"

namespace reprise::cli {

// What several replays taught, image by image.
class LessonsFiles {
 public:
  // InvalidArgument, one line that begins with the path, when a file holds no such statistics, or
  // fields that are not known and not to be ignored.
  static absl::StatusOr<LessonsFiles> Read(const std::vector<std::string>& paths,
                                           base::UnknownNames& unknown);

  // Adds the statistics in `text`, of a file called `path`. Errors as Read.
  absl::Status Add(std::string_view text, const std::string& path, base::UnknownNames& unknown);

  // What all of them together teach about this recording. InvalidArgument when there are files, and
  // one of them is about other recordings: when `alone`, or when the recording is of the program
  // that was started.
  absl::StatusOr<replay::Learned> For(const trace::Recording& recording, bool alone);

  // InvalidArgument when a file was about none of the recordings that were asked for.
  absl::Status AllUsed() const;

 private:
  struct Image {
    uint64_t recording;  // its hash
    uint64_t events;     // of it
    replay::Lessons lessons;
  };
  struct File {
    std::string path;
    std::vector<Image> images;
    bool used = false;
  };

  std::vector<File> files_;
};

}  // namespace reprise::cli

#endif  // REPRISE_CLI_FEEDBACK_FILE_H_

// A thread of the launcher that keeps the spools of a session drained (trace/spool_drain.h), and
// compacts them meanwhile (trace/spool_compaction.h).
#ifndef REPRISE_CLI_SPOOL_DRAINER_H_
#define REPRISE_CLI_SPOOL_DRAINER_H_

#include <atomic>
#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "cli/explained.h"
#include "interpose/process/session.h"
#include "trace/spool_compaction.h"
#include "trace/spool_drain.h"

namespace reprise::cli {

// A spool that is being compacted, and the max load of what was compacted.
struct BegunCompaction {
  std::unique_ptr<LoadMeter> load;
  std::unique_ptr<trace::SpoolCompaction> compaction;
};
using BegunCompactions = std::map<uint32_t, BegunCompaction>;  // by the image's number

// Recording goes on without it, slower; so what fails here is not worth a word. A spool is drained
// before any is compacted, and on a machine with one processor none is compacted: that would take
// time from the program.
class SpoolDrainer {
 public:
  // `registry` is mapped shared and outlives this; the spools lie in `output`.
  SpoolDrainer(interpose::Registry* registry, std::string output);
  ~SpoolDrainer();  // leaves what is sealed from then on where it is
  // Stops, and returns what was begun.
  BegunCompactions Stop();
  SpoolDrainer(const SpoolDrainer&) = delete;
  SpoolDrainer& operator=(const SpoolDrainer&) = delete;

 private:
  struct Image {
    uint32_t number;
    std::string path;  // of its spool
    trace::SpoolDrain drain;
    uint64_t copied = 0;  // chunks
  };
  void Main();
  void FindImages();
  uint64_t DrainAll();
  void BeginCompaction(const Image& image);
  bool CompactSome();

  interpose::Registry* registry_;
  const std::string output_;
  uint32_t seen_ = 0;               // images below this are in one of the following, or done with
  std::vector<uint32_t> unsealed_;  // have sealed no chunk yet
  std::vector<Image> open_;
  const bool compacts_;
  BegunCompactions compactions_;
  std::atomic<bool> stop_{false};
  std::thread thread_;
};

}  // namespace reprise::cli

#endif  // REPRISE_CLI_SPOOL_DRAINER_H_

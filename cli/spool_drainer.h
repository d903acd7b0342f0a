// A thread of the launcher that keeps the spools of a session drained (trace/spool_drain.h).
#ifndef REPRISE_CLI_SPOOL_DRAINER_H_
#define REPRISE_CLI_SPOOL_DRAINER_H_

#include <atomic>
#include <cstdint>
#include <string>
#include <thread>
#include <vector>

#include "interpose/process/session.h"
#include "trace/spool_drain.h"

namespace reprise::cli {

// Recording goes on without it, slower; so what fails here is not worth a word.
class SpoolDrainer {
 public:
  // `registry` is mapped shared and outlives this; the spools lie in `output`.
  SpoolDrainer(interpose::Registry* registry, std::string output);
  ~SpoolDrainer();  // leaves what is sealed from then on where it is
  SpoolDrainer(const SpoolDrainer&) = delete;
  SpoolDrainer& operator=(const SpoolDrainer&) = delete;

 private:
  struct Image {
    uint32_t number;
    trace::SpoolDrain drain;
  };
  void Main();
  void FindImages();
  uint64_t DrainAll();

  interpose::Registry* registry_;
  const std::string output_;
  uint32_t seen_ = 0;               // images below this are in one of the following, or done with
  std::vector<uint32_t> unsealed_;  // have sealed no chunk yet
  std::vector<Image> open_;
  std::atomic<bool> stop_{false};
  std::thread thread_;
};

}  // namespace reprise::cli

#endif  // REPRISE_CLI_SPOOL_DRAINER_H_

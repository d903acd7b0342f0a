// Runs reprise-player and reads what it printed.
#ifndef REPRISE_REPLAY_COMPARE_PLAYER_PROCESS_H_
#define REPRISE_REPLAY_COMPARE_PLAYER_PROCESS_H_

#include <cstdint>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "replay/compare/player/script.h"

namespace reprise::replay {

// The lines "name value" that the player printed.
using Answers = std::map<std::string, std::string>;

// The file that the player writes what it observes to (script.h), mapped here as well.
class Observed {
 public:
  // Unavailable when the system refuses it.
  static absl::StatusOr<Observed> Create(uint64_t bytes);
  Observed(Observed&& other) noexcept
      : fd_(std::exchange(other.fd_, -1)), data_(other.data_), bytes_(other.bytes_) {}
  Observed(const Observed&) = delete;
  Observed& operator=(const Observed&) = delete;
  ~Observed();

  int descriptor() const { return fd_; }
  const uint64_t* words() const { return data_; }
  // What the player has put behind them.
  std::vector<ObservedReturn> returned() const;

 private:
  Observed(int fd, uint64_t* data, uint64_t bytes) : fd_(fd), data_(data), bytes_(bytes) {}
  int fd_;
  uint64_t* data_;
  uint64_t bytes_;
};

// Starts `player` with the library `preload` (empty: none) and nothing else preloaded, and waits
// for it. It performs `script`; an empty script asks only who serves malloc. Its standard error is
// shown when `script` is given. A script with kScriptObserve needs `observed`. Errors: Aborted when
// the player ended badly, Unavailable when the system refused to start it, or what it needs.
absl::StatusOr<Answers> RunPlayer(const std::string& player, const std::string& preload,
                                  const std::vector<uint64_t>& script,
                                  const Observed* observed = nullptr);

// For who starts the player in another way.
// This environment without what is preloaded, and with `more`. The allocators' own variables are
// kept: who sets MALLOC_CONF wants it compared.
std::vector<std::string> EnvironmentWith(const std::vector<std::string>& more);
// As exec wants it, up to a null pointer. They point into `strings`.
std::vector<char*> Pointers(std::vector<std::string>& strings);
// Up to the end of it, or an error.
std::string ReadAll(int descriptor);

}  // namespace reprise::replay

#endif  // REPRISE_REPLAY_COMPARE_PLAYER_PROCESS_H_

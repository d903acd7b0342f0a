// _exit with everything alive and nothing flushed, while another thread allocates: nothing that was
// recorded or counted may be lost.
#include <unistd.h>

#include <atomic>
#include <thread>

#include "tests/programs/block.h"

int main() {
  static std::atomic<bool> started = false;
  std::thread([] {
    for (unsigned i = 0;; ++i) {
      Churn(i, 100);
      started = true;
    }
  }).detach();
  while (!started) {
  }
  for (int i = 0; i < 1000; ++i) Allocate(i + 1, i);
  static const char kText[] = "1000 blocks\n";
  Require(write(1, kText, sizeof(kText) - 1) > 0, "write");
  _exit(6);
}

// A daemon's start: closes every descriptor, opens others in their place, leaves its directory.
#include <fcntl.h>
#include <unistd.h>

#include <thread>

#include "tests/programs/block.h"

int main() {
  Churn(1, 1000);
  for (int fd = 3; fd < 1024; ++fd) close(fd);
  for (int i = 0; i < 20; ++i) Require(open("/dev/null", O_WRONLY) == 3 + i, "descriptors");
  Require(chdir("/") == 0, "chdir");
  setsid();
  Churn(2, 50000);
  std::thread([] { Churn(3, 50000); }).join();
  puts("done");
  return 0;
}

// Leaves a child in the background that allocates nothing until it reads a byte from the file that
// is named, and prints its number.
#include <fcntl.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>

int main(int, char** words) {
  const pid_t child = fork();
  if (child == 0) {
    for (int fd = 0; fd < 3; ++fd) close(fd);
    char byte;
    const int fd = open(words[1], O_RDONLY);
    if (fd < 0 || read(fd, &byte, 1) != 1) _exit(1);
    for (int i = 0; i < 1000; ++i) {
      void* volatile block = std::malloc(100);
      std::free(block);
    }
    _exit(0);
  }
  std::printf("%d\n", child);
  return 0;
}

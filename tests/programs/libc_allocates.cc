// Blocks that libc allocates and the program frees, and libc's own questions about the heap.
#include <malloc.h>
#include <netdb.h>
#include <unistd.h>
#include <wchar.h>

#include "tests/programs/block.h"

int main() {
  for (int round = 0; round < 100; ++round) {
    free(Use(strdup("strdup")));
    char* text = nullptr;
    Require(asprintf(&text, "%0*d", 10 + round * 50, round) > 0, "asprintf");
    free(Use(text));
    size_t capacity = 0;
    char* line = nullptr;
    FILE* file = fopen("/proc/self/maps", "re");
    while (getline(&line, &capacity, file) > 0) {
    }
    fclose(file);
    free(line);
    char* stream_text = nullptr;
    size_t stream_bytes = 0;
    FILE* stream = open_memstream(&stream_text, &stream_bytes);
    for (int i = 0; i < 100; ++i) fprintf(stream, "%d,", i);
    fclose(stream);
    Require(strlen(stream_text) == stream_bytes, "open_memstream");
    free(stream_text);
    free(Use(realpath("/proc/self/../self/exe", nullptr)));
    free(Use(getcwd(nullptr, 0)));
    addrinfo* found = nullptr;
    Require(getaddrinfo("127.0.0.1", "80", nullptr, &found) == 0, "getaddrinfo");
    freeaddrinfo(found);
  }
  malloc_trim(0);
  mallopt(M_MMAP_THRESHOLD, 1 << 20);
  const struct mallinfo2 info = mallinfo2();
  Require(info.ordblks < (1 << 30), "mallinfo2");
  FILE* nowhere = fopen("/dev/null", "we");
  Require(malloc_info(0, nowhere) == 0, "malloc_info");
  fclose(nowhere);
  puts("done");
  return 0;
}

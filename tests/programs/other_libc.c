/* Allocates with another C library than glibc, and ends with a status of its own. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

int main(void) {
  unsigned long sum = 0;
  for (int i = 1; i < 100; ++i) {
    char* block = malloc((size_t)i * 10);
    memset(block, i, (size_t)i * 10);
    sum += (unsigned char)block[i];
    free(block);
  }
  printf("sum %lu\n", sum);
  return 7;
}

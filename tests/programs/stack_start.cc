// Prints where its stack begins, modulo 64, and how its arguments end.
#include <cstdint>
#include <cstdio>

extern "C" void* __libc_stack_end;

int main(int argc, char** argv) {
  std::printf("%d %s\n", static_cast<int>(reinterpret_cast<uintptr_t>(__libc_stack_end) % 64),
              argc > 1 ? argv[argc - 1] : "");
}

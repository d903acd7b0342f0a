// With "handler" a crash, whose handler ends the program from a stack that is hardly large enough
// for that; with "execl" a thread with the smallest stack that becomes another program.
#include <limits.h>
#include <pthread.h>
#include <signal.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "tests/programs/block.h"

namespace {

constexpr size_t kPage = 4096;
constexpr size_t kLarge = 1 << 20;
constexpr size_t kForHandler = 3000;

uintptr_t top;   // of the handler's stack
uintptr_t used;  // of it when the handler begins

void Measure(int) { used = top - reinterpret_cast<uintptr_t>(__builtin_frame_address(0)); }

// Found beforehand: the dynamic linker needs more stack than there is.
void (*const volatile end)(int) = _exit;
void End(int) { end(3); }

void* Become(void*) {
  execl("/bin/sh", "sh", "-c", "echo another; exit 4", nullptr);
  return nullptr;
}

void HandleOnStack(int signal, void (*handler)(int), char* begin, size_t bytes) {
  stack_t stack{};
  stack.ss_sp = begin;
  stack.ss_size = bytes;
  Require(sigaltstack(&stack, nullptr) == 0, "sigaltstack");
  top = reinterpret_cast<uintptr_t>(begin) + bytes;
  struct sigaction action {};
  action.sa_handler = handler;
  action.sa_flags = SA_ONSTACK;
  sigaction(signal, &action, nullptr);
  raise(signal);
}

void CrashOnSmallStack() {
  // Nothing can be read or written below it.
  auto* room = static_cast<char*>(
      mmap(nullptr, kPage + kLarge, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0));
  Require(room != MAP_FAILED, "mmap");
  Require(mprotect(room + kPage, kLarge, PROT_READ | PROT_WRITE) == 0, "mprotect");
  HandleOnStack(SIGUSR1, Measure, room + kPage, kLarge);
  HandleOnStack(SIGSEGV, End, room + kPage, used + kForHandler);
}

}  // namespace

int main(int argc, char** argv) {
  free(Use(malloc(100)));
  if (argc > 1 && strcmp(argv[1], "execl") == 0) {
    pthread_attr_t attributes;
    pthread_attr_init(&attributes);
    pthread_attr_setstacksize(&attributes, PTHREAD_STACK_MIN);
    pthread_t thread;
    Require(pthread_create(&thread, &attributes, Become, nullptr) == 0, "pthread_create");
    pthread_join(thread, nullptr);
  } else {
    CrashOnSmallStack();
  }
  return 0;
}

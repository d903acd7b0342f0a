// Allocations whose callers are known by name (tests/end_to_end/stacks_test.py). Each block has a
// size of its own and is never freed, so that a profile of what lives tells them apart.
#include <alloca.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <stdexcept>
#include <thread>

// Stays a call of its own, with a frame.
#define CALL extern "C" __attribute__((noinline)) void
#define RETURN asm volatile("" ::: "memory")

namespace {
void* volatile kept;
bool from_handler;
volatile size_t one = 1;  // keeps compilers from making functions of one argument of their own
}  // namespace

CALL Make(size_t size) {
  kept = malloc(size);
  RETURN;
}

// The same code: their frames are as long, and the stack is as deep.
CALL FirstTwin(size_t size) {
  Make(size);
  RETURN;
}
CALL SecondTwin(size_t size) {
  Make(size + 1);
  RETURN;
}
CALL BothTwins(int rounds) {
  for (int round = 0; round < rounds; ++round) {
    FirstTwin(1000 * one);
    SecondTwin(1000 * one);
  }
  RETURN;
}

CALL Recurse(int left) {
  if (left == 0) {
    Make(2000 * one);
  } else {
    Recurse(left - 1);
  }
  RETURN;
}

// The frame is found by rbp, and as long as the argument says.
CALL RoomOnStack(size_t bytes) {
  auto* room = static_cast<char*>(alloca(bytes));
  memset(room, 1, bytes);
  asm volatile("" ::"r"(room) : "memory");
  Make(3000 * one);
  RETURN;
}
CALL AlignedStack(size_t bytes) {
  alignas(128) char room[256];
  memset(room, 1, sizeof(room));
  asm volatile("" ::"r"(room) : "memory");
  RoomOnStack(bytes);
  RETURN;
}

struct Leaver {
  ~Leaver() { Make(4000 * one); }
};
CALL Throw() {
  const Leaver leaver;
  throw std::runtime_error("thrown");
}
CALL Catch() {
  try {
    Throw();
  } catch (const std::exception&) {
    Make(4001 * one);
  }
  RETURN;
}

CALL Handle(int) {
  Make(5000 * one + (from_handler ? 1 : 0));
  RETURN;
}
CALL Interrupted() {
  raise(SIGUSR1);
  RETURN;
}

extern "C" __attribute__((noinline)) int Compare(const void* a, const void* b) {
  Make(6000 * one);
  return *static_cast<const int*>(a) - *static_cast<const int*>(b);
}
CALL Sort() {
  int numbers[] = {2, 1};
  qsort(numbers, 2, sizeof(int), Compare);
  RETURN;
}

CALL InThread() {
  Make(7000 * one);
  RETURN;
}

int main() {
  BothTwins(static_cast<int>(3 * one));
  Recurse(static_cast<int>(3 * one));
  for (size_t bytes = 16; bytes < 5000; bytes *= 2) AlignedStack(bytes);
  Catch();

  struct sigaction action {};
  action.sa_handler = Handle;
  sigaction(SIGUSR1, &action, nullptr);
  Interrupted();
  static char stack[64 << 10];
  const stack_t alternate = {stack, 0, sizeof(stack)};
  sigaltstack(&alternate, nullptr);
  action.sa_flags = SA_ONSTACK;
  sigaction(SIGUSR1, &action, nullptr);
  from_handler = true;
  Interrupted();

  Sort();
  std::thread(InThread).join();
  puts("done");
  return 0;
}

// longjmp and exceptions leave frames that hold blocks; contexts and alternate stacks allocate
// where no stack depth can be measured.
#include <setjmp.h>
#include <signal.h>
#include <ucontext.h>

#include <stdexcept>
#include <string>

#include "tests/programs/block.h"

namespace {

jmp_buf target;
sigjmp_buf signal_target;
Block kept;

[[gnu::noinline]] void Jump(int depth) {
  Block block = Allocate(depth * 10 + 1, depth);
  if (depth == 20) {
    kept = block;
    longjmp(target, 1);
  }
  if (depth < 20) Jump(depth + 1);
  Release(block);
}

[[gnu::noinline]] int Throw(int depth) {
  const std::string text(depth * 10, 'x');
  if (depth == 20) throw std::runtime_error(text);
  return Throw(depth + 1) + static_cast<int>(text.size());
}

void OnSignal(int) {
  kept = Allocate(500, 3);
  siglongjmp(signal_target, 1);
}

ucontext_t main_context, fibre_context;
void Fibre() {
  for (int i = 0; i < 10; ++i) {
    Churn(i, 200);
    swapcontext(&fibre_context, &main_context);
  }
}

// Apart from main, whose variables a jump might spoil.
[[gnu::noinline]] void CatchJump() {
  if (setjmp(target) == 0) Jump(0);
  Release(kept);
}

[[gnu::noinline]] void CatchSignal() {
  if (sigsetjmp(signal_target, 1) == 0) raise(SIGUSR1);
  Release(kept);
}

[[gnu::noinline]] size_t CatchThrow() {
  try {
    return Throw(0);
  } catch (const std::exception& error) {
    return strlen(error.what());
  }
}

}  // namespace

int main() {
  size_t caught = 0;
  for (int round = 0; round < 50; ++round) {
    CatchJump();
    caught += CatchThrow();
  }
  printf("caught %zu\n", caught);

  // The handler runs on a stack of its own, that was allocated, and never returns.
  stack_t stack{};
  stack.ss_size = 64 << 10;
  stack.ss_sp = Use(malloc(stack.ss_size));
  sigaltstack(&stack, nullptr);
  struct sigaction action {};
  action.sa_handler = OnSignal;
  action.sa_flags = SA_ONSTACK;
  sigaction(SIGUSR1, &action, nullptr);
  for (int round = 0; round < 50; ++round) CatchSignal();

  char* fibre_stack = static_cast<char*>(Use(malloc(64 << 10)));
  getcontext(&fibre_context);
  fibre_context.uc_stack.ss_sp = fibre_stack;
  fibre_context.uc_stack.ss_size = 64 << 10;
  makecontext(&fibre_context, Fibre, 0);
  for (int i = 0; i < 10; ++i) {
    swapcontext(&main_context, &fibre_context);
    Churn(i + 100, 200);
  }
  free(fibre_stack);
  puts("done");
  return 0;
}

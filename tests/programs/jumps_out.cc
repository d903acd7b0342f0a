// jumps_out [JUMPS]: signal handlers that leave whatever they interrupted, malloc and free
// included, by siglongjmp. (No program may rely on that; some do.) Afterwards the thread has memory
// as before: its blocks have no pages of their own each.
#include <setjmp.h>
#include <signal.h>
#include <sys/time.h>

#include <cstdio>
#include <cstdlib>
#include <cstring>

namespace {

sigjmp_buf back;
volatile sig_atomic_t may_jump;

void OnSignal(int) {
  if (may_jump != 0) siglongjmp(back, 1);
}

}  // namespace

int main(int count, char** arguments) {
  const int jumps_wanted = count > 1 ? std::atoi(arguments[1]) : 0;
  struct sigaction action {};
  action.sa_handler = OnSignal;
  sigaction(SIGALRM, &action, nullptr);
  const itimerval often = {{0, 500}, {0, 500}}, never = {};
  if (jumps_wanted > 0) setitimer(ITIMER_REAL, &often, nullptr);
  volatile int jumps = 0;
  volatile unsigned state = 1;
  if (sigsetjmp(back, 1) != 0) jumps = jumps + 1;
  may_jump = jumps < jumps_wanted;
  while (may_jump != 0) {
    // Sizes in no order, so that no plan is followed.
    state = state * 1103515245 + 12345;
    std::free(std::malloc(16 + (state >> 16 & 1000)));
  }
  setitimer(ITIMER_REAL, &never, nullptr);
  constexpr int kBlocks = 2000;
  char* blocks[kBlocks];
  int apart = 0;
  for (int i = 0; i < kBlocks; ++i) {
    blocks[i] = static_cast<char*>(std::malloc(100));
    std::memset(blocks[i], 1, 100);
    apart += i > 0 && std::abs(blocks[i] - blocks[i - 1]) >= 4096;
  }
  std::printf("blocks with pages of their own: %s\n", apart < kBlocks / 2 ? "none" : "many");
  for (char* block : blocks) std::free(block);
  return 0;
}

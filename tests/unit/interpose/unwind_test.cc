// The way up the stack by .eh_frame, against glibc's own, which goes another way (libgcc).
#include "interpose/process/unwind.h"

#include <alloca.h>
#include <execinfo.h>
#include <gtest/gtest.h>
#include <pthread.h>
#include <signal.h>

#include <algorithm>
#include <cstring>
#include <functional>
#include <string>
#include <thread>
#include <vector>

#include "interpose/process/byte_cursor.h"
#include "interpose/process/frame_rule.h"
#include "interpose/process/thread_state.h"

extern "C" void* __libc_stack_end;

namespace reprise::interpose {
namespace {

std::vector<KnownRule> rules(kKnownRules);

// What the hooks' threads know of themselves.
void KnowStack(uint64_t base) {
  this_thread.stack_base = base;
  this_thread.stack_bytes = 8 << 20;
}

struct Walks {
  std::vector<uint64_t> ours, theirs;
  std::vector<StackFrame> frames;
};

// Stands where a hook stands: its caller is where the walk begins.
__attribute__((noinline)) Walks WalkBothWays(uint32_t most, KnownRule* known) {
  const Caller caller = {reinterpret_cast<uint64_t>(__builtin_return_address(0)),
                         reinterpret_cast<uint64_t>(__builtin_dwarf_cfa())};
  Walks walks;
  walks.frames.resize(kMostFrames);
  walks.frames.resize(UnwindCallers(caller, most, walks.frames.data(), known, 1));
  for (const StackFrame& frame : walks.frames) {
    walks.ours.push_back(frame.return_address);
    EXPECT_EQ(*reinterpret_cast<const uint64_t*>(frame.slot), frame.return_address);
  }
  void* addresses[kMostFrames + 8];
  const int count = backtrace(addresses, static_cast<int>(most) + 2);
  bool above = false;
  for (int i = 0; i < count && walks.theirs.size() < most; ++i) {
    const auto address = reinterpret_cast<uint64_t>(addresses[i]);
    if (above) walks.theirs.push_back(address);
    above |= address == caller.return_address();
  }
  return walks;
}

void ExpectSameWay(const Walks& walks) {
  // glibc tells of the outermost frame's caller too, where nothing is.
  ASSERT_GE(walks.ours.size(), 3u);
  ASSERT_LE(walks.ours.size(), walks.theirs.size());
  for (size_t i = 0; i < walks.ours.size(); ++i) EXPECT_EQ(walks.ours[i], walks.theirs[i]) << i;
  EXPECT_LE(walks.theirs.size(), walks.ours.size() + 1);
}

__attribute__((noinline)) void WithRoom(size_t bytes, const std::function<void()>& call) {
  auto* room = static_cast<char*>(alloca(bytes));
  std::memset(room, 1, bytes);
  asm volatile("" ::"r"(room) : "memory");
  call();
  asm volatile("" ::: "memory");
}
__attribute__((noinline)) void Aligned(const std::function<void()>& call) {
  alignas(256) char room[512];
  std::memset(room, 1, sizeof(room));
  asm volatile("" ::"r"(room) : "memory");
  call();
  asm volatile("" ::: "memory");
}

// Every way of finding a caller, with a table of rules and without one.
void TryAllWays() {
  for (KnownRule* known : {static_cast<KnownRule*>(nullptr), rules.data(), rules.data()}) {
    const auto compare = [known] { ExpectSameWay(WalkBothWays(40, known)); };
    compare();
    for (const size_t bytes : {16, 100, 5000}) WithRoom(bytes, compare);
    Aligned(compare);
    Aligned([&] { WithRoom(333, [&] { Aligned(compare); }); });
    std::vector<int> numbers = {2, 1};
    std::sort(numbers.begin(), numbers.end(), [&](int a, int b) {
      compare();
      return a < b;
    });
  }
}

TEST(InterposeUnwind, FindsWhatLibgccFinds) {
  KnowStack(reinterpret_cast<uint64_t>(__libc_stack_end));
  TryAllWays();
}

TEST(InterposeUnwind, InAnotherThread) {
  std::thread([] {
    KnowStack(pthread_self());
    TryAllWays();
  }).join();
}

TEST(InterposeUnwind, StopsAtTheNumberAskedFor) {
  KnowStack(reinterpret_cast<uint64_t>(__libc_stack_end));
  EXPECT_EQ(WalkBothWays(2, rules.data()).ours.size(), 2u);
  EXPECT_TRUE(WalkBothWays(0, rules.data()).ours.empty());
}

Walks in_handler;
void Handle(int) { in_handler = WalkBothWays(30, nullptr); }

TEST(InterposeUnwind, OutOfASignalHandler) {
  KnowStack(reinterpret_cast<uint64_t>(__libc_stack_end));
  static char stack[128 << 10];
  const stack_t alternate = {stack, 0, sizeof(stack)};
  ASSERT_EQ(sigaltstack(&alternate, nullptr), 0);
  for (const int flags : {0, SA_ONSTACK}) {
    SCOPED_TRACE(flags);
    struct sigaction action {};
    action.sa_handler = Handle;
    action.sa_flags = flags;
    sigaction(SIGUSR1, &action, nullptr);
    raise(SIGUSR1);
    ExpectSameWay(in_handler);
    EXPECT_EQ(std::count_if(in_handler.frames.begin(), in_handler.frames.end(),
                            [](const StackFrame& frame) { return frame.interrupted; }),
              1);
  }
}

// A stack of which nothing is known, or whose end is nearer than it is, gives fewer frames.
TEST(InterposeUnwind, StaysOnTheStack) {
  KnowStack(reinterpret_cast<uint64_t>(__builtin_dwarf_cfa()));
  EXPECT_LE(WalkBothWays(40, rules.data()).ours.size(), 1u);
  KnowStack(0);
  EXPECT_GE(WalkBothWays(40, rules.data()).ours.size(), 3u);
}

TEST(InterposeUnwind, NoRuleOutsideOfCode) {
  FrameRule rule;
  EXPECT_FALSE(FindFrameRule(0x1234, &rule));
  EXPECT_FALSE(FindFrameRule(reinterpret_cast<uint64_t>(rules.data()), &rule));
}

TEST(ByteCursor, ReadsWhatDwarfWrites) {
  const uint8_t bytes[] = {0xe5, 0x8e, 0x26, 0xc0, 0xbb, 0x78, 0x7f, 0x02, 0x01, 0x80};
  ByteCursor cursor(bytes, bytes + sizeof(bytes));
  EXPECT_EQ(cursor.Unsigned(), 624485u);
  EXPECT_EQ(cursor.Signed(), -123456);
  EXPECT_EQ(cursor.Signed(), -1);
  EXPECT_EQ(cursor.Fixed<uint16_t>(), 0x0102);
  EXPECT_TRUE(cursor.ok());
  EXPECT_EQ(cursor.Unsigned(), 0u);  // cut short
  EXPECT_FALSE(cursor.ok());
  EXPECT_TRUE(cursor.empty());
}

}  // namespace
}  // namespace reprise::interpose

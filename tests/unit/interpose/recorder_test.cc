// The recorder without a preload: the hooks are called directly, in a session that the test makes,
// and the spool that they write must tell exactly what was done.
#include "interpose/record/recorder.h"

#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <gtest/gtest.h>
#include <malloc.h>
#include <signal.h>
#include <sys/stat.h>
#include <sys/time.h>
#include <unistd.h>

#include <atomic>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <map>
#include <mutex>
#include <optional>
#include <random>
#include <string>
#include <thread>
#include <vector>

#include "interpose/hooks.h"
#include "interpose/process/process.h"
#include "interpose/process/real.h"
#include "interpose/process/session.h"
#include "interpose/process/thread_state.h"
#include "interpose/process/threads.h"
#include "interpose/record/epochs.h"
#include "interpose/startup.h"
#include "trace/reader.h"
#include "trace/spool_drain.h"

namespace reprise::interpose {
namespace {

namespace fs = std::filesystem;

// Call sites outside every module, on no thread's stack: of no known depth.
constexpr uint64_t kReturnAddresses[] = {0x1234, 0x1235, 0x1236, 0x1237, 0x1238, 0x1239, 0x123a};
Caller CallerAt(const uint64_t* return_address) {
  return {*return_address, reinterpret_cast<uint64_t>(return_address + 1)};
}
Caller Site(size_t number) { return CallerAt(&kReturnAddresses[number]); }

// One session for the whole test process: an image starts once.
class RecorderTest : public testing::Test {
 protected:
  static void SetUpTestSuite() {
    directory_ = fs::temp_directory_path() / ("recorder_test." + std::to_string(getpid()));
    fs::create_directories(directory_ / "out");
    fs::permissions(directory_, fs::perms::owner_all);
    SessionFile session{};
    session.magic = kSessionMagic;
    session.flags = kSessionRecord;
    session.images = kMaxImages;
    std::strncpy(session.directory, directory_.c_str(), kPathBytes - 1);
    std::strncpy(session.output, (directory_ / "out").c_str(), kPathBytes - 1);
    Write("session", &session, sizeof(session), sizeof(session));
    Registry registry{};
    registry.magic = kSessionMagic;
    Write("registry", &registry, sizeof(registry), kRegistryBytes);
    setenv(kSessionVariable, directory_.c_str(), 1);
    process.mode = Mode::kUnstarted;
    Start();
    ASSERT_EQ(process.mode, Mode::kRecord);
  }

  static void TearDownTestSuite() {
    process.mode = Mode::kPlain;
    fs::remove_all(directory_);
  }

  static void Write(const char* name, const void* bytes, size_t count, uint64_t size) {
    const std::string path = directory_ / name;
    std::ofstream(path, std::ios::binary).write(static_cast<const char*>(bytes), count);
    fs::resize_file(path, size);
  }

  // What has been recorded so far; the process is still recording.
  static trace::Recording Read() {
    for (const auto& entry : fs::directory_iterator(directory_ / "out")) {
      auto recording = trace::LoadRecording(entry.path());
      EXPECT_TRUE(recording.ok()) << recording.status();
      EXPECT_TRUE(recording->damage.empty());
      return *std::move(recording);
    }
    ADD_FAILURE() << "no spool";
    return {};
  }

  static void ExpectTrueOrder(std::mutex* solo);

  static fs::path directory_;
};

fs::path RecorderTest::directory_;

// Copies chunks of the spool as the launcher does, as long as it lives, and then waits until no
// more are under way, so that the spool can be read.
class Draining {
 public:
  explicit Draining(const fs::path& output) {
    for (const auto& entry : fs::directory_iterator(output)) {
      auto drain = trace::SpoolDrain::Open(entry.path());
      EXPECT_TRUE(drain.ok()) << drain.status();
      drains_.push_back(*std::move(drain));
    }
    thread_ = std::thread([this] {
      while (!stop_) copied_ += drains_.at(0).Run();
    });
  }
  ~Draining() {
    stop_ = true;
    thread_.join();
    EXPECT_GT(copied_, 0u);
  }

 private:
  std::vector<trace::SpoolDrain> drains_;
  uint64_t copied_ = 0;
  std::atomic<bool> stop_{false};
  std::thread thread_;
};

TEST_F(RecorderTest, EveryKindOfCallIsThere) {
  const trace::Recording before = Read();
  void* plain = HookMalloc(100, Site(0));
  void* zeroed = HookCalloc(3, 7, Site(1));
  void* aligned = HookAlignedAlloc(256, 512, Site(2));
  const size_t usable = HookUsableSize(plain);
  void* grown = HookRealloc(plain, 5000, Site(3));
  void* empty = HookMalloc(0, Site(4));
  void* refused = HookMalloc(SIZE_MAX / 2 + 1, Site(5));
  EXPECT_EQ(refused, nullptr);
  EXPECT_EQ(errno, ENOMEM);
  void* kept = HookRealloc(grown, SIZE_MAX / 2 + 1,
                           Site(6));  // fails: the block lives on
  EXPECT_EQ(kept, nullptr);
  HookFree(zeroed);
  HookFree(nullptr);
  const trace::Recording after = Read();
  ASSERT_EQ(after.allocations.size(), before.allocations.size() + 5);
  EXPECT_EQ(after.events, before.events + 7);
  const trace::Allocation* made = &after.allocations[before.allocations.size()];
  EXPECT_EQ(made[0].size, 100u);
  EXPECT_EQ(made[1].size, 21u);
  EXPECT_EQ(made[1].kind, trace::AllocationKind::kCalloc);
  EXPECT_NE(made[1].death, trace::kNever);
  EXPECT_EQ(made[2].size, 512u);
  EXPECT_EQ(made[2].log2_alignment, 8);
  EXPECT_EQ(made[3].size, 5000u);
  EXPECT_EQ(made[3].kind, trace::AllocationKind::kRealloc);
  EXPECT_EQ(made[3].previous, before.allocations.size());
  EXPECT_EQ(made[3].death, trace::kNever);
  EXPECT_EQ(made[4].size, 0u);
  ASSERT_FALSE(after.usable_answers.empty());
  EXPECT_EQ(after.usable_answers.back().first, before.allocations.size());
  EXPECT_EQ(after.usable_answers.back().second, usable);
  EXPECT_EQ(after.lost_events, 0u);
  for (void* block : {aligned, grown, empty}) HookFree(block);
}

TEST_F(RecorderTest, CallSitesNameTheirModule) {
  // An address inside this program.
  const uint64_t here = reinterpret_cast<uint64_t>(&RecordUsable) & ((uint64_t{1} << 47) - 1);
  constexpr uint64_t depth = 33;
  // A stack of its own, on which such a caller's frame ends.
  static uint64_t stack[2 * depth + 1];
  stack[0] = here;
  const uint64_t stack_base = this_thread.stack_base;
  this_thread.stack_base = reinterpret_cast<uint64_t>(&stack[2 * depth + 1]);
  HookFree(HookMalloc(64, CallerAt(&stack[0])));
  this_thread.stack_base = stack_base;
  const trace::Recording recording = Read();
  const trace::Site& site = recording.sites[recording.allocations.back().site];
  ASSERT_NE(site.module, trace::kNone);
  EXPECT_EQ(fs::path(recording.modules[site.module].path).filename(),
            fs::read_symlink("/proc/self/exe").filename());
  EXPECT_EQ(recording.modules[site.module].base + site.offset, here);
  EXPECT_EQ(site.depth, depth);
}

struct SiteJob {
  uint64_t site;
  std::atomic<int> step{0};
};

// Between its two blocks, which lie at the same place, another thread tells of the site's module.
void* AllocateAround(void* argument) {
  auto* job = static_cast<SiteJob*>(argument);
  HookFree(HookMalloc(32, Site(0)));
  job->step = 1;
  while (job->step != 2) std::this_thread::yield();
  HookFree(HookMalloc(32, CallerAt(&job->site)));
  return nullptr;
}

// Whichever thread told of a module, no event that names it stands before that.
TEST_F(RecorderTest, EventsComeAfterTheirModules) {
  int modules = 0;
  for (const char* name : {"qsort", "_ZSt9terminatev", "cbrt", "_Unwind_Resume"}) {
    const auto function = reinterpret_cast<uint64_t>(dlsym(RTLD_DEFAULT, name));
    if (function == 0) continue;
    SiteJob job{function + 1};
    pthread_t thread;
    ASSERT_EQ(CreateThread(&thread, nullptr, AllocateAround, &job), 0);
    while (job.step != 1) std::this_thread::yield();
    HookFree(HookMalloc(16, CallerAt(&job.site)));
    job.step = 2;
    pthread_join(thread, nullptr);
    const trace::Recording recording = Read();
    const trace::Allocation& last = recording.allocations.back();
    EXPECT_EQ(last.size, 32u);
    EXPECT_NE(recording.sites[last.site].module, trace::kNone) << name;
    ++modules;
  }
  EXPECT_GE(modules, 3);
}

struct ThreadJob {
  std::vector<std::atomic<void*>>* mailbox;
  uint64_t seed;
  uint64_t rounds;
  std::mutex* solo = nullptr;  // who has it works alone for a while, but for a few events of others
};

// Blocks go through a mailbox that all threads share: what one thread frees, another gets from
// malloc at once.
void* Exchange(void* argument) {
  const auto* job = static_cast<ThreadJob*>(argument);
  std::mt19937_64 random(job->seed);
  uint64_t burst = 0;
  std::unique_lock<std::mutex> lock;
  for (uint64_t i = 0; i < job->rounds; ++i) {
    if (job->solo != nullptr && burst-- == 0) {
      const bool had = lock.owns_lock();
      lock = {};
      if (!had) lock = std::unique_lock(*job->solo);
      burst = random() % (had ? 20 : 2000);
    }
    void* fresh = HookMalloc(1 + random() % 100, Site(0));
    void* old = (*job->mailbox)[random() % job->mailbox->size()].exchange(fresh);
    if (old != nullptr) HookFree(old);
  }
  return nullptr;
}

// A free and the reuse of its address by another thread must never appear inverted: an inverted
// pair would show as a free of an unknown block or as a block that is allocated twice.
void RecorderTest::ExpectTrueOrder(std::mutex* solo) {
  constexpr int kThreads = 4;
  const trace::Recording before = Read();
  std::optional<Draining> draining(directory_ / "out");
  std::vector<std::atomic<void*>> mailbox(64);
  std::vector<ThreadJob> jobs;
  std::vector<pthread_t> threads(kThreads);
  for (int i = 0; i < kThreads; ++i) jobs.push_back({&mailbox, i + uint64_t{1}, 250000, solo});
  for (int i = 0; i < kThreads; ++i) {
    ASSERT_EQ(CreateThread(&threads[i], nullptr, Exchange, &jobs[i]), 0);
  }
  for (const pthread_t thread : threads) pthread_join(thread, nullptr);
  for (auto& slot : mailbox) HookFree(slot.load());
  draining.reset();
  const trace::Recording after = Read();
  EXPECT_EQ(after.unmatched_frees, before.unmatched_frees);
  EXPECT_EQ(after.implied_frees, before.implied_frees);
  EXPECT_EQ(after.lost_events, 0u);
  EXPECT_GE(after.events, before.events + 2 * kThreads * jobs[0].rounds);
  EXPECT_EQ(after.threads.size(), before.threads.size() + kThreads);
}

TEST_F(RecorderTest, AcrossThreadsTheOrderIsTrue) { ExpectTrueOrder(nullptr); }

// Threads that are quiet, until they are not.
TEST_F(RecorderTest, AcrossThreadsThatWorkInBurstsTheOrderIsTrue) {
  std::mutex solo;
  ExpectTrueOrder(&solo);
}

// The only thread that works takes one epoch per chunk, whatever other threads there were before.
TEST_F(RecorderTest, WhoWorksAloneStaysInItsEpoch) {
  const auto work = [] {
    for (int i = 0; i < 1000; ++i) HookFree(HookMalloc(100, Site(0)));
  };
  work();
  const uint64_t before = NewestEpoch();
  work();
  EXPECT_LE(NewestEpoch() - before, 1);
}

void* AllocateOnce(void*) {
  HookFree(HookMalloc(10, Site(0)));
  return nullptr;
}

// As in a forked child, whose epochs begin anew: what its parent noted would look like the future.
TEST(EpochsTest, ForgottenEpochsSayNothingOfAnyBlock) {
  for (uint64_t block = 1; block <= kEpochSlots; ++block) NoteEpoch(9, block << 20, kSlotLarge);
  ASSERT_EQ(SlotFlags(uint64_t{kEpochSlots} << 20), kSlotLarge);
  ForgetEpochs();
  uint64_t known = 0;
  for (const uint64_t slot : epoch_slots) known += slot != 0 ? 1 : 0;
  EXPECT_EQ(known, 0);
}

// What is asked again of the same block is not written again; a block that takes its place is
// another one.
TEST_F(RecorderTest, AUsableSizeIsRecordedOncePerBlock) {
  const size_t before = Read().usable_answers.size();
  for (int block = 0; block < 3; ++block) {
    void* pointer = HookMalloc(40, Site(0));
    for (int i = 0; i < 4; ++i) EXPECT_GE(HookUsableSize(pointer), 40u);
    HookFree(pointer);
  }
  EXPECT_EQ(Read().usable_answers.size(), before + 3);
}

TEST_F(RecorderTest, ThreadsOneAfterAnotherShareAChunk) {
  const auto chunks = [] {
    uint64_t bytes = 0;
    for (const auto& entry : fs::directory_iterator(directory_ / "out")) {
      struct stat info;
      stat(entry.path().c_str(), &info);
      bytes += static_cast<uint64_t>(info.st_blocks) * 512;
    }
    return bytes;
  };
  const uint64_t before = chunks();
  for (int i = 0; i < 1000; ++i) {
    pthread_t thread;
    ASSERT_EQ(CreateThread(&thread, nullptr, AllocateOnce, nullptr), 0);
    pthread_join(thread, nullptr);
  }
  EXPECT_LT(chunks() - before, 2u << 20);
}

std::atomic<uint64_t> handled{0};

// The real allocator must be one that a handler may call: blocks of a static pool, handed out by an
// atomic counter.
alignas(16) char pool[256 << 20];
std::atomic<uint64_t> pool_used{0};
void* PoolMalloc(size_t size) {
  const uint64_t at = pool_used.fetch_add((size + 31) & ~uint64_t{15});
  return at + size < sizeof(pool) ? pool + at : nullptr;
}
void PoolFree(void*) {}

void OnSignal(int) {
  HookFree(HookMalloc(24, Site(0)));
  handled.fetch_add(1);
}

TEST_F(RecorderTest, AHandlerMayAllocateWhileAHookRuns) {
  const trace::Recording before = Read();
  std::optional<Draining> draining(directory_ / "out");
  fast_state.malloc = PoolMalloc;
  fast_state.free = PoolFree;
  struct sigaction action {};
  action.sa_handler = OnSignal;
  struct sigaction old;
  sigaction(SIGALRM, &action, &old);
  const itimerval often{{0, 50}, {0, 50}};
  setitimer(ITIMER_REAL, &often, nullptr);
  uint64_t mine = 0;
  while (handled.load() < 3000 && pool_used.load() < sizeof(pool) / 2) {
    for (int i = 0; i < 100; ++i, ++mine) HookFree(HookMalloc(8, Site(0)));
  }
  const itimerval never{};
  setitimer(ITIMER_REAL, &never, nullptr);
  sigaction(SIGALRM, &old, nullptr);
  fast_state.malloc = real.malloc;
  fast_state.free = real.free;
  draining.reset();
  const trace::Recording after = Read();
  EXPECT_EQ(after.lost_events, 0u);
  EXPECT_EQ(after.allocations.size() - before.allocations.size(), mine + handled.load());
  EXPECT_EQ(after.unmatched_frees, before.unmatched_frees);
}

}  // namespace
}  // namespace reprise::interpose

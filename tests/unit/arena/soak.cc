// A soak of the arena: threads run plans of random recordings and deviate from them in every way,
// millions of times a second. Every block is filled with a pattern of its own, which is verified
// whenever the block is used and when it is freed: two blocks that share a byte are found out.
// Where blocks are too long for that, a map of all that are live finds it out at once.
//
//     arena_soak --operations 1000000000 --seed 7 --threads 2
//
// An operation is an allocation, a free, a question for a size or a wrong free. A failure names the
// round: `--seed S --round R` begins with it. With one thread it is the same every time.
#include <algorithm>
#include <atomic>
#include <bit>
#include <chrono>
#include <cinttypes>
#include <cmath>
#include <cstdio>
#include <cstring>
#include <map>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "absl/flags/flag.h"
#include "absl/flags/parse.h"
#include "absl/flags/usage.h"
#include "tests/unit/arena/patterned_blocks.h"
#include "tests/unit/plan/recordings.h"
#include "tests/unit/plan/served_plan.h"

namespace reprise::replay {
namespace {

// splitmix64 (Steele, Lea and Flood 2014).
class Random {
 public:
  explicit Random(uint64_t seed) : state_(seed) {}
  uint64_t operator()() {
    uint64_t mixed = state_ += 0x9e3779b97f4a7c15;
    mixed = (mixed ^ mixed >> 30) * 0xbf58476d1ce4e5b9;
    mixed = (mixed ^ mixed >> 27) * 0x94d049bb133111eb;
    return mixed ^ mixed >> 31;
  }
  uint64_t Below(uint64_t bound) { return (*this)() % bound; }
  // `rate` is a share of 2^32.
  bool Chance(uint64_t rate) { return rate != 0 && (*this)() >> 32 < rate; }
  double Share() { return static_cast<double>((*this)() >> 11) * 0x1p-53; }
  // Between the two, each magnitude as likely as the others.
  uint64_t Magnitude(double least, double most) {
    return static_cast<uint64_t>(least * std::pow(most / least, Share()));
  }

 private:
  uint64_t state_;
};

constexpr uint64_t kAlways = uint64_t{1} << 32;

// How often a thread does something else than was recorded, per event: shares of 2^32.
struct Deviation {
  explicit Deviation(Random& random) {
    if (random.Chance(kAlways / 2)) again = random.Magnitude(1e-4 * kAlways, 0.02 * kAlways);
    if (random.Chance(kAlways / 8)) return;
    const double most = random.Magnitude(1e-3 * kAlways, 0.5 * kAlways);
    for (uint64_t* rate : {&skip, &insert, &other_site, &other_size, &late, &twice, &grow, &hand,
                           &ask, &wrong, &jump, &swap}) {
      if (random.Chance(kAlways / 3)) *rate = random.Magnitude(1e-4 * kAlways, most);
    }
    kept = random.Magnitude(4, 400);
  }

  uint64_t skip = 0;        // allocations left out
  uint64_t insert = 0;      // allocations put in
  uint64_t other_site = 0;  // from elsewhere
  uint64_t other_size = 0;
  uint64_t late = 0;   // frees that come later
  uint64_t twice = 0;  // frees that come twice
  uint64_t grow = 0;   // blocks that are reallocated
  uint64_t hand = 0;   // blocks that other threads get
  uint64_t ask = 0;    // for the usable size, all of which is then used
  uint64_t wrong = 0;  // frees of what is no block's start
  uint64_t jump = 0;   // goes on somewhere else in the recording
  uint64_t swap = 0;   // events that come before the one before
  uint64_t again = 0;  // goes back by an iteration of a loop
  uint64_t kept = 64;  // blocks that were not freed when they should have been
};

// What a thread of the recording did: allocations by index, frees with kDies.
using Script = std::vector<uint32_t>;

std::vector<Script> ScriptsOf(const trace::Recording& recording) {
  std::vector<Script> scripts(recording.threads.size());
  for (const auto& [when, what] : EventsOf(recording)) {
    scripts[recording.allocations[what & ~kDies].thread].push_back(what);
  }
  return scripts;
}

// What a thread of a run did.
struct Done {
  uint64_t allocations = 0;
  uint64_t refused = 0;
  uint64_t wrong_frees = 0;
  uint64_t in_place = 0;  // reallocs that left their block where it was
  uint64_t lanes = 0;
  uint64_t off_plan = 0;  // lanes that left their plan before the thread ended
};

// What was exercised, of all runs.
struct Totals {
  uint64_t operations = 0;
  uint64_t elsewhere = 0;  // allocations that the stream did not place
  Done done;
} totals;

// What the threads of a run share.
struct Run {
  Run(const trace::Recording& of, const std::vector<Script>& with, ServedPlan& by, unsigned threads,
      bool long_blocks)
      : recording(of), scripts(with), plan(by), live(long_blocks || threads == 1), mail(threads) {}

  bool is_alone() const { return mail.size() == 1; }

  struct Mail {
    std::mutex lock;
    std::vector<Block> blocks;
  };

  const trace::Recording& recording;
  const std::vector<Script>& scripts;
  ServedPlan& plan;
  uint64_t iteration = 0;  // events of a thread; 0: it has no loop
  LiveRanges live;
  std::vector<Mail> mail;  // blocks on their way, per thread
  std::atomic<uint64_t> tags{0};
  std::atomic<uint64_t> operations{0};
  std::mutex lock;  // of what follows
  std::vector<Done> done;
};

// One thread of the program, from its first allocation to its end.
class Life {
 public:
  Life(Run& run, unsigned mailbox, ServedThread& thread, uint64_t seed)
      : run_(run),
        recording_(run.recording),
        thread_(thread),
        mailbox_(mailbox),
        random_(seed),
        deviation_(random_),
        live_(recording_.allocations.size()) {}

  void Follow(const Script& script) {
    if (script.empty()) return;
    const uint64_t passes = 1 + random_.Below(3);
    uint64_t steps = script.size() * passes;
    if (random_.Chance(kAlways / 4)) steps = random_.Below(steps);
    uint64_t at = random_.Chance(kAlways / 8) ? random_.Below(script.size()) : 0;
    for (uint64_t step = 0; step < steps; ++step) {
      if (step % 16 == 0) ReadMail();
      if (random_.Chance(deviation_.again) && at >= run_.iteration) at -= run_.iteration;
      if (random_.Chance(deviation_.jump)) at = random_.Below(script.size());
      if (random_.Chance(deviation_.swap)) Do(script[(at + 1) % script.size()]);
      Stray();
      Do(script[at]);
      at = at + 1 < script.size() ? at + 1 : 0;
    }
  }

  // The thread ends; others free what it leaves, or it does that itself.
  void End() {
    const bool leaves_some = random_.Chance(kAlways / 2);
    for (Block& block : live_) {
      if (block.pointer != nullptr) Discard(block, leaves_some);
    }
    for (Block& block : others_) Discard(block, leaves_some);
    run_.operations += operations_;
    done_.lanes = thread_.lane() != nullptr ? 1 : 0;
    done_.off_plan = done_.lanes != 0 && !thread_.Follows() ? 1 : 0;
    thread_.End();
    const std::lock_guard guard(run_.lock);
    run_.done.push_back(done_);
  }

 private:
  // One event of the recording.
  void Do(uint32_t what) {
    const uint32_t index = what & ~kDies;
    Block& block = live_[index];
    const trace::Allocation& allocation = recording_.allocations[index];
    if (what == index) {
      if (block.pointer != nullptr) others_.push_back(block);
      block = {};
      if (random_.Chance(deviation_.skip)) return;
      const uint32_t previous = allocation.previous;
      if (previous != trace::kNone && live_[previous].pointer != nullptr) {
        block = Reallocate(live_[previous], allocation);
        live_[previous] = {};
      } else {
        block = AllocateLike(allocation);
      }
      return;
    }
    if (block.pointer == nullptr || IsReallocated(index)) return;
    if (random_.Chance(deviation_.late)) {
      others_.push_back(block);
    } else if (allocation.free_thread != allocation.thread) {
      Hand(block);
    } else {
      Free(block);
    }
    block = {};
  }

  // What the recording does not have.
  void Stray() {
    if (random_.Chance(deviation_.insert)) {
      others_.push_back(
          AllocateLike(recording_.allocations[random_.Below(recording_.allocations.size())]));
    }
    while (others_.size() > deviation_.kept || (!others_.empty() && random_.Chance(1 << 28))) {
      Block block = TakeOther();
      Discard(block, random_.Chance(deviation_.hand));
    }
    if (others_.empty()) return;
    if (random_.Chance(deviation_.grow)) {
      Block block = TakeOther();
      others_.push_back(
          Reallocate(block, recording_.allocations[random_.Below(recording_.allocations.size())]));
    }
    Block& any = others_[random_.Below(others_.size())];
    if (any.pointer == nullptr) return;
    if (random_.Chance(deviation_.ask)) AskSize(any);
    if (random_.Chance(deviation_.wrong)) FreeWrongly(any);
  }

  Block AllocateLike(const trace::Allocation& like) {
    uint64_t size = like.size;
    uint64_t site = SiteWordOf(recording_, like);
    if (random_.Chance(deviation_.other_size)) size = random_.Below(2 * size + 64);
    if (random_.Chance(deviation_.other_site)) site += 64;
    Block block = Make(size, like.log2_alignment, site);
    if (block.pointer != nullptr && random_.Chance(deviation_.ask)) AskSize(block);
    return block;
  }

  // Null where the arena has no room.
  Block Make(uint64_t size, unsigned log2_alignment, uint64_t site) {
    ++operations_;
    Block block{thread_.Allocate(size, log2_alignment, site), size, NewTag()};
    if (block.pointer == nullptr) {
      ++done_.refused;
      return {};
    }
    ++done_.allocations;
    const uint64_t alignment = uint64_t{1} << std::max(4u, log2_alignment);
    Require(reinterpret_cast<uint64_t>(block.pointer) % alignment == 0, "alignment");
    Require(run_.plan.arena().Contains(block.pointer), "a block outside of the arena");
    run_.live.Add(block.pointer, size);
    Fill(block);
    return block;
  }

  uint64_t NewTag() {
    if (tag_ % 4096 == 0) tag_ = (run_.tags += 4096);
    return ++tag_ * 0x9e3779b97f4a7c15;
  }

  void Free(Block& block) {
    ++operations_;
    Verify(block);
    run_.live.Remove(block.pointer);
    Require(thread_.Free(block.pointer), "a live block was not recognised");
    // Where other threads run, the place may be another block's by now.
    if (!run_.is_alone() || !random_.Chance(deviation_.twice)) return;
    Require(!thread_.Free(block.pointer), "a block was freed twice");
    ++done_.wrong_frees;
  }

  // A thread that frees another's block leaves it to that one to find out.
  void FreeWrongly(const Block& block) {
    const bool aligned = run_.is_alone() && block.bytes > kGranule;
    const uint64_t off = aligned ? kGranule * (1 + random_.Below((block.bytes - 1) / kGranule))
                                 : 1 + random_.Below(kGranule - 1);
    ++operations_;
    ++done_.wrong_frees;
    Require(!thread_.Free(block.pointer + off), "freed in the middle of a block");
  }

  // From then on the block is as long as the answer.
  void AskSize(Block& block) {
    ++operations_;
    Verify(block);
    const uint64_t usable = thread_.Usable(block.pointer);
    Require(usable >= block.bytes, "less is usable than was asked for");
    run_.live.Set(block.pointer, usable);
    const uint64_t before = BytesFilled(block);
    block.bytes = usable;
    Fill(block, before);
  }

  Block Reallocate(Block& old, const trace::Allocation& like) {
    if (old.pointer == nullptr) return {};
    Verify(old);
    operations_ += 2;
    run_.live.Remove(old.pointer);
    Block block{thread_.Reallocate(old.pointer, like.size, SiteWordOf(recording_, like)), like.size,
                old.tag};
    const uint64_t moved = std::min(BytesFilled(old), block.bytes);
    if (block.pointer == nullptr) {
      ++done_.refused;
      block = old;
    } else {
      ++done_.allocations;
      done_.in_place += block.pointer == old.pointer ? 1 : 0;
    }
    run_.live.Add(block.pointer, block.bytes);
    VerifyFrom({block.pointer, moved, block.tag}, 0);
    Fill(block, moved);
    return block;
  }

  // Whether the next event of the recording is the other half of a realloc.
  bool IsReallocated(uint32_t index) const {
    const uint64_t next = recording_.allocations[index].death + 1;
    const auto at = std::lower_bound(recording_.allocations.begin(), recording_.allocations.end(),
                                     next, [](const trace::Allocation& allocation, uint64_t birth) {
                                       return allocation.birth < birth;
                                     });
    return at != recording_.allocations.end() && at->previous == index;
  }

  Block TakeOther() {
    std::swap(others_[random_.Below(others_.size())], others_.back());
    const Block block = others_.back();
    others_.pop_back();
    return block;
  }

  void Discard(Block& block, bool hand) {
    if (block.pointer == nullptr) return;
    if (hand) return Hand(block);
    Free(block);
  }

  void Hand(const Block& block) {
    Run::Mail& mail = run_.mail[random_.Below(run_.mail.size())];
    const std::lock_guard guard(mail.lock);
    mail.blocks.push_back(block);
  }

  void ReadMail() {
    Run::Mail& mail = run_.mail[mailbox_];
    std::vector<Block> blocks;
    {
      const std::lock_guard guard(mail.lock);
      blocks.swap(mail.blocks);
    }
    for (Block& block : blocks) {
      if (random_.Chance(deviation_.ask)) AskSize(block);
      if (random_.Chance(deviation_.late)) {
        others_.push_back(block);
      } else {
        Free(block);
      }
    }
  }

  Run& run_;
  const trace::Recording& recording_;
  ServedThread& thread_;
  Done done_;
  const unsigned mailbox_;
  Random random_;
  const Deviation deviation_;
  std::vector<Block> live_;    // per allocation of the recording
  std::vector<Block> others_;  // inserted, kept for longer, or somebody else's
  uint64_t tag_ = 0;
  uint64_t operations_ = 0;
};

// The threads of the recording in their order or in another one, some twice, some not at all.
std::vector<uint32_t> DrawThreads(const RecordingShape& shape, Random& random) {
  std::vector<uint32_t> threads;
  for (uint32_t phase = 0; phase < shape.phases; ++phase) {
    for (uint32_t i = phase; i < shape.threads; i += shape.phases) {
      if (!random.Chance(kAlways / 20)) threads.push_back(i);
      if (random.Chance(kAlways / 20)) threads.push_back(i);
    }
  }
  if (random.Chance(kAlways / 4)) std::shuffle(threads.begin(), threads.end(), std::mt19937_64());
  return threads;
}

void LiveOnce(Run& run, unsigned mailbox, uint32_t thread, uint64_t seed) {
  Random random(seed);
  const bool named = random.Chance(kAlways / 8 * 7);
  const uint64_t path = named ? thread + 1 : 1000 + thread;
  const auto& first =
      run.recording.allocations[random.Below(std::min<uint64_t>(8, run.recording.events / 2 + 1)) %
                                run.recording.allocations.size()];
  ServedThread served(run.plan, path, Shape(first.size, first.log2_alignment),
                      SiteWordOf(run.recording, first));
  Life life(run, mailbox, served, random());
  const bool foreign = random.Chance(kAlways / 8);
  life.Follow(run.scripts[foreign ? random.Below(run.scripts.size()) : thread]);
  life.End();
}

// What is left is freed when every thread has ended; then everything was counted.
void Settle(Run& run) {
  for (Run::Mail& mail : run.mail) {
    for (const Block& block : mail.blocks) {
      Verify(block);
      Require(run.plan.arena().Free(block.pointer, nullptr, nullptr), "a live block was not freed");
    }
  }
  Require(run.plan.InvalidFrees() == 0, "a right free was taken for a wrong one");
  Done sum;
  for (const Done& done : run.done) {
    sum.allocations += done.allocations;
    sum.refused += done.refused;
    sum.wrong_frees += done.wrong_frees;
    sum.in_place += done.in_place;
    sum.lanes += done.lanes;
    sum.off_plan += done.off_plan;
  }
  uint64_t planned = 0;
  for (size_t lane = 0; lane < run.plan.lanes(); ++lane) planned += run.plan.served(lane).planned;
  const uint64_t elsewhere = run.plan.Elsewhere();
  Require(planned + elsewhere == sum.allocations, "allocations miscounted");
  totals.operations += run.operations;
  totals.elsewhere += elsewhere;
  totals.done.allocations += sum.allocations;
  totals.done.refused += sum.refused;
  totals.done.wrong_frees += sum.wrong_frees;
  totals.done.in_place += sum.in_place;
  totals.done.lanes += sum.lanes;
  totals.done.off_plan += sum.off_plan;
}

void RunOnce(const trace::Recording& recording, const std::vector<Script>& scripts,
             const RecordingShape& shape, uint64_t iteration, ServedPlan& plan, unsigned threads,
             Random& random) {
  plan.Restart();
  Run run(recording, scripts, plan, threads, shape.magnitudes);
  run.iteration = iteration;
  const std::vector<uint32_t> lives = DrawThreads(shape, random);
  const uint64_t seed = random();
  std::atomic<size_t> next{0};
  const auto work = [&](unsigned mailbox) {
    for (size_t at = next++; at < lives.size(); at = next++) {
      LiveOnce(run, mailbox, lives[at], seed + at);
    }
  };
  std::vector<std::thread> others;
  for (unsigned i = 1; i < threads; ++i) others.emplace_back(work, i);
  work(0);
  for (std::thread& thread : others) thread.join();
  Settle(run);
}

RecordingShape DrawShape(Random& random) {
  RecordingShape shape;
  shape.allocations = static_cast<uint32_t>(random.Magnitude(100, 20'000));
  shape.threads = static_cast<uint32_t>(1 + random.Below(6));
  shape.phases = random.Chance(kAlways / 2) ? 1 : 1 + random.Below(shape.threads);
  shape.sites = static_cast<uint32_t>(random.Magnitude(1, 80));
  shape.most_bytes = random.Magnitude(16, random.Chance(kAlways / 8) ? 20'000 : 500);
  shape.remote_frees = random.Chance(kAlways / 2) ? 0.5 * random.Share() : 0;
  shape.never_freed = random.Chance(kAlways / 2) ? 0 : 0.05 * random.Share();
  shape.aligned = random.Chance(kAlways / 2) ? 0 : 0.1 * random.Share();
  shape.reallocs = random.Chance(kAlways / 2) ? 0 : 0.5 * random.Share();
  shape.usable_asked = random.Chance(kAlways / 2) ? 0 : 0.2 * random.Share();
  if (random.Chance(kAlways / 3)) shape.most_log2_alignment = 24;
  if (random.Chance(kAlways / 3)) {
    // So many keys, in so large a box, that words have no bits for most of them.
    shape.sites = static_cast<uint32_t>(random.Magnitude(20, 10'000));
    shape.own_size = random.Share();
    shape.magnitudes = true;
    shape.most_bytes = random.Magnitude(20'000, 1 << 27);
  }
  return shape;
}

// Threads that go through loops.
trace::Recording DrawLoops(RecordingShape& shape, uint64_t& iteration, Random& random) {
  LoopShape loop;
  loop.threads = shape.threads;
  loop.prefix = static_cast<uint32_t>(random.Magnitude(1, 300));
  loop.body = static_cast<uint32_t>(random.Magnitude(2, 600));
  loop.iterations = static_cast<uint32_t>(random.Magnitude(4, 60));
  loop.sites = shape.sites;
  loop.carried = random.Chance(kAlways / 2) ? 0.5 * random.Share() : 0;
  loop.longest = 1 + static_cast<uint32_t>(random.Below(3));
  loop.remote_frees = random.Chance(kAlways / 4) ? 0.3 * random.Share() : 0;
  iteration = 2 * loop.body;
  shape.phases = 1;
  shape.magnitudes = false;
  return LoopRecording(loop, random());
}

// What a recording has only of some programs: reallocs that make a block shorter, and allocators
// that answer malloc_usable_size in another way than glibc.
void Vary(trace::Recording& recording, Random& random) {
  for (trace::Allocation& allocation : recording.allocations) {
    if (allocation.previous != trace::kNone && random.Chance(kAlways / 4)) {
      allocation.size = random.Below(allocation.size + 1);
    }
  }
  const uint64_t way = random.Below(3);
  for (auto& [index, answer] : recording.usable_answers) {
    const uint64_t size = recording.allocations[index].size;
    answer = way == 0 ? size : way == 1 ? std::bit_ceil(size) : std::max(answer, size);
  }
}

// As if replays had taught that some blocks live longer.
Learned DrawLessons(const trace::Recording& recording, Random& random) {
  Learned learned;
  if (!random.Chance(kAlways / 4)) return learned;
  for (uint32_t i = 0; i < recording.allocations.size(); ++i) {
    const trace::Allocation& allocation = recording.allocations[i];
    if (allocation.death != trace::kNever && random.Chance(kAlways / 20)) {
      learned.upper[i] = std::min(recording.events, allocation.death + random.Below(500));
    }
  }
  return learned;
}

// A recording, its plan, and many runs of it.
void Round(unsigned threads, uint64_t most) {
  Random random(where.seed * 1'000'003 + where.round);
  RecordingShape shape = DrawShape(random);
  uint64_t iteration = 0;
  trace::Recording recording = random.Chance(kAlways / 3) ? DrawLoops(shape, iteration, random)
                                                          : RandomRecording(shape, random());
  Vary(recording, random);
  const std::vector<Script> scripts = ScriptsOf(recording);
  ServedPlan plan(recording, DrawLessons(recording, random));
  const uint64_t share = shape.magnitudes ? 200'000 : 1'000'000;  // long blocks take longer
  const uint64_t enough = std::min<uint64_t>(most, totals.operations + share);
  for (where.run = 0; where.run < 200 && totals.operations < enough; ++where.run) {
    RunOnce(recording, scripts, shape, iteration, plan, threads, random);
  }
}

}  // namespace
}  // namespace reprise::replay

ABSL_FLAG(uint64_t, operations, 20'000'000, "stop after so many");
ABSL_FLAG(double, seconds, 1e9, "or after so long");
ABSL_FLAG(uint64_t, seed, 1, "of everything that is drawn");
ABSL_FLAG(uint64_t, round, 0, "begin with this one");
ABSL_FLAG(unsigned, threads, 2, "that run at the same time");

int main(int argc, char** argv) {
  using reprise::replay::totals;
  using reprise::replay::where;
  absl::SetProgramUsageMessage("Threads that deviate from their plans, and every block verified");
  absl::ParseCommandLine(argc, argv);
  const uint64_t most = absl::GetFlag(FLAGS_operations);
  const double seconds = absl::GetFlag(FLAGS_seconds);
  const unsigned threads = absl::GetFlag(FLAGS_threads);
  where.seed = absl::GetFlag(FLAGS_seed);
  where.round = absl::GetFlag(FLAGS_round);
  const auto start = std::chrono::steady_clock::now();
  const uint64_t first = where.round;
  std::chrono::duration<double> taken{};
  while (totals.operations < most && taken.count() < seconds) {
    reprise::replay::Round(threads, most);
    ++where.round;
    taken = std::chrono::steady_clock::now() - start;
  }
  std::printf("%" PRIu64 " operations in %" PRIu64 " rounds, nothing found\n", totals.operations,
              where.round - first);
  const auto& done = totals.done;
  std::printf("%" PRIu64 " allocations, %" PRIu64
              " of them elsewhere than the stream said, %" PRIu64 " refused; %" PRIu64
              " reallocs in place; %" PRIu64 " wrong frees\n",
              done.allocations, totals.elsewhere, done.refused, done.in_place, done.wrong_frees);
  std::printf("%" PRIu64 " lanes, %" PRIu64 " of them left their plan\n", done.lanes,
              done.off_plan);
  std::fprintf(stderr, "%.1f s, %.0f ns per operation\n", taken.count(),
               1e9 * taken.count() / static_cast<double>(totals.operations));
  return 0;
}

// What the launcher (`reprise record`, `reprise replay`) and the library inside the program say to
// each other. Plain data in files of one private directory, the session directory, which the
// environment variable REPRISE_SESSION names. The variable always has the same length, so that the
// program's stack lies the same in every run.
//
//   DIR/session   SessionFile: written by the launcher, mapped read-only by every process image
//   DIR/registry  Registry: one ImageEntry per process image, mapped by all of them; who is whose
//                 parent, what each image counted
//   DIR/taken     for each plan, how often its place in the tree has been taken
//   DIR/counters.N  the replay counters of image N (replay/plan/counters.h)
//
// A process that has given up privileges still maps what it mapped before. So nothing that it can
// write to says what another process opens or executes; whoever reads the registry takes it for
// what anybody may have written.
#ifndef REPRISE_INTERPOSE_PROCESS_SESSION_H_
#define REPRISE_INTERPOSE_PROCESS_SESSION_H_

#include <stdint.h>

#include "base/hash.h"

namespace reprise::interpose {

inline constexpr char kSessionVariable[] = "REPRISE_SESSION";
inline constexpr uint64_t kSessionMagic = 0x3853534550525245;  // changes with every layout below
inline constexpr uint32_t kMostStackFrames = 64;
inline constexpr uint32_t kMaxImages = 1 << 16;
inline constexpr uint32_t kPathBytes = 1024;

enum SessionFlags : uint32_t {
  kSessionRecord = 1,   // write a spool per image into `output`
  kSessionReplay = 2,   // serve from the plans of `plans`
  kSessionCommand = 4,  // with kSessionRecord: note command line and environment
  // With kSessionReplay: huge pages for the arena; neither: where they cost no memory.
  kSessionHugePages = 8,
  kSessionNoHugePages = 16,
  kSessionRelease = 32,  // with kSessionReplay: give back pages that the plan leaves idle for long
};

// A plan that an image of this session may take.
struct PlanEntry {
  uint64_t place;  // the image's place in the recorded process tree
  uint32_t root;   // 1: it was the program that was started; the new one takes it whatever
                   // its place
  uint32_t unused;
  // The file that the launcher verified: another one is not mapped.
  uint64_t device, inode, bytes;
  int64_t changed, changed_nanoseconds;  // st_ctim
  uint64_t checksum;                     // of its header
  char path[kPathBytes];
};

struct SessionFile {
  uint64_t magic;
  uint32_t flags;
  uint32_t stack_frames;       // with kSessionRecord: callers noted for each allocation; 0: none
  uint32_t plans;              // PlanEntry records follow, sorted by place
  uint32_t images;             // for which the registry has room; at most kMaxImages
  char directory[kPathBytes];  // the session directory
  char output[kPathBytes];     // where spools go; empty when not recording
};

// A process image: what runs between two execs. Claimed by adding to Registry::images.
struct ImageEntry {
  uint64_t place;  // 0: not filled in yet
  uint64_t parent_place;
  uint64_t start_time;  // of the process, clock ticks since boot
  uint32_t pid;
  uint32_t forked;         // 1: a forked child that did not exec; `parent_place` is its parent's
  uint32_t forks;          // atomic: forked children so far
  uint32_t unpreloadable;  // atomic: children it started that could not be preloaded
  uint32_t state;          // ImageState
  uint32_t lanes;          // replay: entries in its counters file
  uint32_t seals;          // atomic: chunks of its spool that may be copied; wraps
  uint32_t plan;           // replay: index of the plan it took, into the session's
  uint64_t peak_rss;       // bytes (VmHWM), taken when the image ends or execs; 0: not known
  char executable[kPathBytes];
  char message[256];  // one line for the launcher to say; empty: nothing to say
};

enum ImageState : uint32_t {  // bits
  kImagePlain = 0,            // neither recorded nor replayed (see message)
  kImageRecorded = 1,
  kImageReplayed = 2,
};

struct Registry {
  uint64_t magic;
  uint32_t images;        // atomic
  uint32_t drain_asleep;  // futex: 1 while the launcher waits for sealed chunks
  uint32_t left_out;      // atomic: images for which there was no entry, or no room on the disk
  uint32_t forbidden;     // atomic: the same, because a sandbox forbids to ask for it
  ImageEntry image[];     // SessionFile::images of them, in a sparse file
};

inline constexpr uint64_t kRegistryBytes = sizeof(Registry) + kMaxImages * sizeof(ImageEntry);

// Entries that lie wholly in the registry's first so many bytes.
constexpr uint32_t EntriesIn(uint64_t bytes) {
  return static_cast<uint32_t>((bytes - sizeof(Registry)) / sizeof(ImageEntry));
}

// The name of the main thread; every other thread is MixPath(parent's path, how many threads the
// parent had created before).
inline constexpr uint64_t kMainThreadPath = 1;

constexpr uint64_t MixPath(uint64_t parent, uint64_t ordinal) {
  return base::MixBits(parent * base::kGoldenRatio + ordinal + 1) | 2;
}

}  // namespace reprise::interpose

#endif  // REPRISE_INTERPOSE_PROCESS_SESSION_H_

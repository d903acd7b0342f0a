#include "interpose/startup.h"

#include <dlfcn.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "base/system_call.h"
#include "interpose/process/address_limit.h"
#include "interpose/process/address_map.h"
#include "interpose/process/images.h"
#include "interpose/process/modules.h"
#include "interpose/process/process.h"
#include "interpose/process/real.h"
#include "interpose/process/thread_state.h"
#include "interpose/process/threads.h"
#include "interpose/record/recorder.h"
#include "interpose/record/spool_chunks.h"
#include "interpose/record/stacks.h"
#include "interpose/replay/replay_setup.h"
#include "interpose/replay/replayer.h"

extern "C" void* __libc_stack_end;

namespace reprise::interpose {
namespace {

// What we map in our reservation goes past RLIMIT_DATA, but counts: the program would get nothing.
bool DataIsLimited() { return LimitOf(RLIMIT_DATA) != RLIM_INFINITY; }

// Reserves our range; false when something lies there, or it would be taken from what the program
// may have.
bool Reserve() {
  if (DataIsLimited() || LimitOf(RLIMIT_AS) != RLIM_INFINITY) return false;
  const long result = SystemCall(
      SYS_mmap, static_cast<long>(kReserved.begin), static_cast<long>(kReserved.bytes), PROT_NONE,
      MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_FIXED_NOREPLACE, -1, 0);
  if (Failed(result)) return false;
  if (static_cast<uint64_t>(result) == kReserved.begin) return true;
  SystemCall(SYS_munmap, result, static_cast<long>(kReserved.bytes));  // a kernel before 4.17
  return false;
}

// Before libc's own initialiser has run (preinit_array) the environment is known only by where the
// kernel left it: behind the count of arguments and the arguments, at the stack's end.
char** Environment() {
  if (environ != nullptr) return environ;
  auto** words = static_cast<char**>(__libc_stack_end);
  return words + 1 + reinterpret_cast<intptr_t>(words[0]) + 1;
}

const char* Variable(const char* name) {
  const size_t length = strlen(name);
  const char* value = nullptr;
  for (char** variable = Environment(); *variable != nullptr; ++variable) {
    if (strncmp(*variable, name, length) == 0 && (*variable)[length] == '=') {
      value = *variable + length + 1;
    }
  }
  return value;
}

// Its tools keep a shadow of all that is mapped; of our addresses that would be more memory than
// there is.
bool RunsUnderValgrind() {
  const char* preloaded = Variable("LD_PRELOAD");
  return preloaded != nullptr && strstr(preloaded, "vgpreload_") != nullptr;
}

// qemu-user shows the program's file where the kernel shows its own. It runs in a process that may
// be recorded itself, cannot tell of forks (MADV_WIPEONFORK), and takes minutes to reserve our
// range.
bool RunsInEmulator() {
  char shown[kPathBytes], real_one[kPathBytes];
  const long shown_bytes =
      SystemCall(SYS_readlinkat, AT_FDCWD, reinterpret_cast<long>("/proc/self/exe"),
                 reinterpret_cast<long>(shown), sizeof(shown));
  const long real_bytes =
      SystemCall(SYS_readlinkat, AT_FDCWD, reinterpret_cast<long>("/proc/thread-self/exe"),
                 reinterpret_cast<long>(real_one), sizeof(real_one));
  return shown_bytes > 0 && real_bytes > 0 &&
         (shown_bytes != real_bytes || memcmp(shown, real_one, shown_bytes) != 0);
}

// Why the program must be left alone; null: it need not.
const char* WhyLeftAlone() {
  if (RunsUnderValgrind()) return "neither recorded nor replayed: it runs under valgrind";
  if (RunsInEmulator()) return "neither recorded nor replayed: it runs in an emulator (qemu-user)";
  return nullptr;
}

// Of a process that is not replayed.
Mode RecordMode() {
  const uint32_t frames = process.session->stack_frames;
  if (frames == 0) return Mode::kRecord;
  if (!DataIsLimited() && StartStacks(frames)) return Mode::kRecordStacks;
  ReportToLauncher("recorded without call stacks: no room for them (RLIMIT_AS, RLIMIT_DATA)");
  return Mode::kRecord;
}

// The session's folder; null when there is none.
const char* SessionPath() {
  const char* path = Variable(kSessionVariable);
  return path != nullptr && path[0] == '/' && strlen(path) < kPathBytes ? path : nullptr;
}

Mode ChooseMode(const char* left_alone) {
  const char* path = SessionPath();
  if (path == nullptr) return Mode::kPlain;
  process.session = static_cast<const SessionFile*>(
      MapSessionFile(path, "/session", kSessionMap, /*writable=*/false));
  if (process.session == nullptr || process.session->magic != kSessionMagic) return Mode::kPlain;
  const uint64_t bytes = RegistryBytes(LimitOf(RLIMIT_AS));
  process.registry = static_cast<Registry*>(
      MapSessionFile(path, "/registry", kRegistryMap, /*writable=*/true, bytes));
  if (process.registry == nullptr) return Mode::kPlain;
  const uint32_t entries = EntriesIn(bytes);
  process.entries = entries < process.session->images ? entries : process.session->images;
  if (process.session->plans > 0) {
    process.taken =
        static_cast<uint32_t*>(MapSessionFile(path, "/taken", kTakenMap, /*writable=*/true));
    if (process.taken == nullptr) return Mode::kPlain;
  }
  if (process.registry->magic != kSessionMagic || !RegisterImage()) return Mode::kPlain;
  if (left_alone == nullptr && Advise(&fast_state, sizeof(fast_state), MADV_WIPEONFORK) != 0) {
    left_alone = "neither recorded nor replayed: the system does not tell it of forks";
  }
  if (left_alone != nullptr) {
    ReportToLauncher(left_alone);
    return Mode::kPlain;
  }
  const bool record = (process.session->flags & kSessionRecord) != 0 && StartRecording();
  const bool replay = (process.session->flags & kSessionReplay) != 0 && StartReplay();
  process.image->state =
      (record ? kImageRecorded : kImagePlain) | (replay ? kImageReplayed : kImagePlain);
  if (record) return replay ? Mode::kReplayRecord : RecordMode();
  return replay ? Mode::kReplay : Mode::kPlain;
}

// Now, because the program may change its root later.
void FindLoader() {
  LoadedModule loader;
  if (FindModule(reinterpret_cast<uint64_t>(&__libc_stack_end), &loader)) {
    process.loader = IdentityOf(loader.path);
  }
}

// What else ends with a thread.
void EndThread() {
  ReleaseChunk();
  EndReplayThread();
}

}  // namespace

void Start() {
  SetMode(Mode::kStarting);
  // First, because FindReal may need the side heap.
  const char* left_alone = SessionPath() != nullptr ? WhyLeftAlone() : nullptr;
  process.reserved = SessionPath() != nullptr && left_alone == nullptr && Reserve();
  FindReal();
  FindLoader();
  StartMainThread(EndThread);
  const Mode mode = ChooseMode(left_alone);
  SetMode(mode);
}

void AfterFork() {
  const SignalBlock block;
  if (!Forked()) return;
  __atomic_store_n(&fast_state.mode, static_cast<uint64_t>(Mode::kStarting), __ATOMIC_RELAXED);
  const uint32_t fork_number = __atomic_fetch_add(&process.image->forks, 1, __ATOMIC_RELAXED);
  ImageEntry* entry = RegisterForkedImage(fork_number);
  // Without an entry the child is still a process of ours, only an unrecorded one.
  const bool was_recording = process.mode == Mode::kRecord || process.mode == Mode::kRecordStacks ||
                             process.mode == Mode::kReplayRecord;
  const bool was_replaying = process.mode == Mode::kReplay || process.mode == Mode::kReplayRecord ||
                             process.mode == Mode::kReplayChild;
  RenewThreadAfterFork();
  StopRecordingAfterFork();
  const bool records = was_recording && !was_replaying && entry != nullptr && StartRecording();
  if (was_replaying) {
    StopReplayAfterFork();
    SetMode(Mode::kReplayChild);
  } else {
    SetMode(records ? RecordMode() : Mode::kPlain);
  }
  if (entry != nullptr) entry->state = records ? kImageRecorded : kImagePlain;
}

namespace {

// Whether the program's calls of malloc come here.
bool ComesFirst() {
  LoadedModule first, ours;
  if (!FindModule(reinterpret_cast<uint64_t>(&ComesFirst), &ours)) return true;
  // Usually; a program may have a stub for calls of ours, the address of which is malloc's.
  if (reinterpret_cast<uint64_t>(&malloc) - ours.begin < ours.end - ours.begin) return true;
  return FindModule(reinterpret_cast<uint64_t>(dlsym(RTLD_DEFAULT, "malloc")), &first) &&
         first.begin == ours.begin;
}

// Whether the calling thread has. A malloc in front of ours may well call ours.
bool HasAllocated() {
  return this_thread.has_written != 0 || this_thread.lane_tried != 0 || this_thread.heap != nullptr;
}

}  // namespace

__attribute__((hot)) void RecordImageEnd() {
  if (!IsOwnImage()) return;
  if (process.behind && process.mode >= Mode::kRecord && !HasAllocated()) {
    ReportToLauncher(
        "its own malloc, or one that LD_PRELOAD names first, stands in front of reprise's: what it "
        "allocates is not seen");
  }
  if (process.mode >= Mode::kReplay && !Forked()) PublishReplay();
  if (const uint64_t peak = PeakRss(); peak != 0) process.image->peak_rss = peak;
}

namespace {

// Runs before main, so that the image is in the tree, and its session mapped, even when it never
// allocates.
__attribute__((constructor)) void OnLoad() {
  if (process.mode == Mode::kUnstarted) Start();
  process.behind = process.mode >= Mode::kRecord && !ComesFirst();
  // Little of what a start takes is needed again.
  if (process.mode >= Mode::kReplay) {
    Advise(const_cast<SessionFile*>(process.session), sizeof(SessionFile), MADV_DONTNEED);
    DropImageScratch();
  }
}

__attribute__((destructor)) void OnExit() {
  if (process.image == nullptr || Forked()) return;
  RecordImageEnd();
  EndRecording();
}

}  // namespace

}  // namespace reprise::interpose

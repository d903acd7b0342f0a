#include "interpose/process.h"

#include <dlfcn.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include "interpose/address_map.h"
#include "interpose/modules.h"
#include "interpose/place.h"
#include "interpose/real.h"
#include "interpose/recorder.h"
#include "interpose/replay_setup.h"
#include "interpose/replayer.h"
#include "interpose/small.h"
#include "interpose/spool_file.h"
#include "interpose/stacks.h"
#include "interpose/system_call.h"
#include "interpose/thread_state.h"
#include "interpose/threads.h"

extern "C" void* __libc_stack_end;

namespace reprise::interpose {

constinit Pulse pulse{};
REPRISE_SMALL constinit Process process = {.mode = Mode::kUnstarted,
                                           .reserved = false,
                                           .session = nullptr,
                                           .registry = nullptr,
                                           .taken = nullptr,
                                           .image = nullptr,
                                           .image_number = 0,
                                           .executable = {},
                                           .behind = false,
                                           .loader = {}};

namespace {

constexpr uint64_t kCodeAlignment = 32 << 10;
constexpr uint64_t kHotBytes = 36 << 10;  // of code
constexpr size_t kScratchBytes = 32 << 10;
alignas(4096) char scratch[kScratchBytes];  // used by Start() and AfterFork() only: one thread each

// Reads a whole small file; the bytes read, 0 when it cannot be.
size_t ReadSmallFile(const char* path, char* buffer, size_t capacity) {
  const int fd = OpenFile(path, O_RDONLY);
  if (fd < 0) return 0;
  size_t used = 0;
  while (used < capacity) {
    const long got = ReadFile(fd, buffer + used, capacity - used);
    if (got <= 0) break;
    used += got;
  }
  CloseFile(fd);
  return used;
}

// Field 22 of /proc/self/stat. The second field may hold spaces, but ends at the last ')'.
uint64_t StartTime() {
  const size_t bytes = ReadSmallFile("/proc/self/stat", scratch, kScratchBytes - 1);
  scratch[bytes] = 0;
  const char* at = strrchr(scratch, ')');
  for (int field = 2; at != nullptr && field < 22; ++field) {
    at = strchr(at + 1, ' ');
  }
  uint64_t value = 0;
  for (at = at != nullptr ? at + 1 : ""; *at >= '0' && *at <= '9'; ++at) {
    value = value * 10 + (*at - '0');
  }
  return value;
}

// VmHWM in bytes; 0 when it cannot be read. In small pieces, because it may be asked for by a
// signal handler with a stack that is as small.
uint64_t PeakRss() {
  static constexpr char kName[] = "VmHWM:";
  constexpr size_t kNameBytes = sizeof(kName) - 1;
  const int fd = OpenFile("/proc/self/status", O_RDONLY);
  if (fd < 0) return 0;
  uint64_t kilobytes = 0;
  size_t matched = 0;
  bool ended = false;
  char piece[256];
  long bytes;
  while (!ended && (bytes = ReadFile(fd, piece, sizeof(piece))) > 0) {
    for (const char* at = piece; at < piece + bytes && !ended; ++at) {
      if (matched < kNameBytes) {
        matched = *at == kName[matched] ? matched + 1 : *at == kName[0] ? 1 : 0;
      } else if (*at >= '0' && *at <= '9') {
        kilobytes = kilobytes * 10 + (*at - '0');
      } else {
        ended = *at == '\n';
      }
    }
  }
  CloseFile(fd);
  return kilobytes << 10;
}

// Whether the session's folder is ours alone. A process may outlive its session: whoever makes a
// folder of that name then gives no orders.
bool IsPrivate(const char* directory, uid_t user) {
  struct stat info;
  return SystemCall(SYS_newfstatat, AT_FDCWD, reinterpret_cast<long>(directory),
                    reinterpret_cast<long>(&info), AT_SYMLINK_NOFOLLOW) == 0 &&
         S_ISDIR(info.st_mode) && info.st_uid == user && (info.st_mode & 077) == 0;
}

// Maps a file of the session, all of it, for writing or not; null when it cannot be.
void* MapShared(const char* directory, const char* name, Range range, bool writable) {
  char path[kPathBytes + 32];
  const size_t length = strnlen(directory, kPathBytes - 1);
  memcpy(path, directory, length);
  strcpy(path + length, name);
  const int fd = OpenFile(path, (writable ? O_RDWR : O_RDONLY) | O_NOFOLLOW | O_NONBLOCK);
  if (fd < 0) return nullptr;
  struct stat info;
  const auto user = static_cast<uid_t>(SystemCall(SYS_geteuid));
  if (SystemCall(SYS_fstat, fd, reinterpret_cast<long>(&info)) != 0 || info.st_uid != user ||
      !S_ISREG(info.st_mode) || static_cast<uint64_t>(info.st_size) > range.bytes ||
      !IsPrivate(directory, user)) {
    CloseFile(fd);
    return nullptr;
  }
  const int flags = MAP_SHARED | (process.reserved ? MAP_FIXED : 0);
  const long result = SystemCall(SYS_mmap, process.reserved ? static_cast<long>(range.begin) : 0,
                                 static_cast<long>(info.st_size),
                                 PROT_READ | (writable ? PROT_WRITE : 0), flags, fd, 0);
  CloseFile(fd);
  return Failed(result) ? nullptr : reinterpret_cast<void*>(result);
}

// The latest image of process `pid` that is not `except`; null when there is none.
ImageEntry* LatestImage(uint32_t pid, uint64_t start_time, const ImageEntry* except) {
  uint32_t count = __atomic_load_n(&process.registry->images, __ATOMIC_ACQUIRE);
  if (count > kMaxImages) count = kMaxImages;
  while (count-- > 0) {
    ImageEntry* entry = &process.registry->image[count];
    if (entry != except && entry->pid == pid &&
        __atomic_load_n(&entry->place, __ATOMIC_ACQUIRE) != 0 &&
        (start_time == 0 || entry->start_time == start_time)) {
      return entry;
    }
  }
  return nullptr;
}

// Null: the registry is full, or its disk is, or the program may not ask for memory (a sandbox).
ImageEntry* ClaimImage() {
  Registry* registry = process.registry;
  ImageEntry* entry;
  uint32_t number = __atomic_load_n(&registry->images, __ATOMIC_ACQUIRE);
  do {
    entry = &registry->image[number];
    // What is counted is looked at, so there must be a page behind it first.
    const int refused =
        number >= kMaxImages ? EFAULT : PopulateOr(reinterpret_cast<char*>(entry), sizeof(*entry));
    if (refused != 0) {
      const bool full = refused == EFAULT || refused == ENOMEM;
      __atomic_fetch_add(full ? &registry->left_out : &registry->forbidden, 1, __ATOMIC_RELAXED);
      return nullptr;
    }
  } while (!__atomic_compare_exchange_n(&registry->images, &number, number + 1, /*weak=*/false,
                                        __ATOMIC_ACQ_REL, __ATOMIC_ACQUIRE));
  process.image_number = number;
  entry->pid = static_cast<uint32_t>(ProcessId());
  memcpy(entry->executable, process.executable, kPathBytes);
  return entry;
}

// Enters this image into the tree. False when there is no room in it.
bool Register() {
  const long length = SystemCall(SYS_readlinkat, AT_FDCWD, reinterpret_cast<long>("/proc/self/exe"),
                                 reinterpret_cast<long>(process.executable), kPathBytes - 1);
  process.executable[length > 0 ? length : 0] = 0;
  ImageEntry* entry = ClaimImage();
  if (entry == nullptr) return false;
  entry->start_time = StartTime();
  // After an exec the process has an earlier image; otherwise the parent process has one. A forked
  // child stands where its parent stands, whether or not it allocated before it called exec.
  const ImageEntry* parent = LatestImage(entry->pid, entry->start_time, entry);
  if (parent == nullptr) {
    parent = LatestImage(static_cast<uint32_t>(SystemCall(SYS_getppid)), 0, entry);
  }
  if (parent != nullptr) {
    entry->parent_place = parent->forked != 0 ? parent->parent_place : parent->place;
  }
  char directory[kPathBytes];
  if (Failed(SystemCall(SYS_getcwd, reinterpret_cast<long>(directory), sizeof(directory)))) {
    directory[0] = 0;
  }
  const size_t bytes = ReadSmallFile("/proc/self/cmdline", scratch, kScratchBytes);
  const uint64_t place = Place(entry->parent_place, process.executable, scratch, bytes, directory);
  process.image = entry;
  __atomic_store_n(&entry->place, place, __ATOMIC_RELEASE);
  return true;
}

// What we map in our reservation goes past RLIMIT_DATA, but counts: the program would get nothing.
bool DataIsLimited() {
  rlimit limit{};
  return SystemCall(SYS_prlimit64, 0, RLIMIT_DATA, 0, reinterpret_cast<long>(&limit)) == 0 &&
         limit.rlim_cur != RLIM_INFINITY;
}

// Reserves our range; false when something lies there or the system refuses (RLIMIT_AS).
bool Reserve() {
  if (DataIsLimited()) return false;
  const long result = SystemCall(
      SYS_mmap, static_cast<long>(kReserved.begin), static_cast<long>(kReserved.bytes), PROT_NONE,
      MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_FIXED_NOREPLACE, -1, 0);
  if (Failed(result)) return false;
  if (static_cast<uint64_t>(result) == kReserved.begin) return true;
  SystemCall(SYS_munmap, result, static_cast<long>(kReserved.bytes));  // a kernel before 4.17
  return false;
}

void SetMode(Mode mode) {
  pulse.malloc = real.malloc;
  pulse.free = real.free;
  pulse.calloc = real.calloc;
  pulse.realloc = real.realloc;
  __atomic_store(&process.mode, &mode, __ATOMIC_RELEASE);
  __atomic_store_n(&pulse.mode, static_cast<uint64_t>(mode), __ATOMIC_RELEASE);
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
  Say("recorded without call stacks: no room for them (RLIMIT_AS, RLIMIT_DATA)");
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
  process.session =
      static_cast<const SessionFile*>(MapShared(path, "/session", kSessionMap, /*writable=*/false));
  if (process.session == nullptr || process.session->magic != kSessionMagic) return Mode::kPlain;
  process.registry =
      static_cast<Registry*>(MapShared(path, "/registry", kRegistryMap, /*writable=*/true));
  if (process.registry == nullptr) return Mode::kPlain;
  if (process.session->plans > 0) {
    process.taken = static_cast<uint32_t*>(MapShared(path, "/taken", kTakenMap, /*writable=*/true));
    if (process.taken == nullptr) return Mode::kPlain;
  }
  if (process.registry->magic != kSessionMagic || !Register()) return Mode::kPlain;
  if (left_alone == nullptr && Advise(&pulse, sizeof(pulse), MADV_WIPEONFORK) != 0) {
    left_alone = "neither recorded nor replayed: the system does not tell it of forks";
  }
  if (left_alone != nullptr) {
    Say(left_alone);
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

}  // namespace

void Start() {
  SetMode(Mode::kStarting);
  // First, because FindReal may need the side heap.
  const char* left_alone = SessionPath() != nullptr ? WhyLeftAlone() : nullptr;
  process.reserved = SessionPath() != nullptr && left_alone == nullptr && Reserve();
  FindReal();
  FindLoader();
  StartMainThread();
  const Mode mode = ChooseMode(left_alone);
  if (mode >= Mode::kReplay) WatchThreadLeaving();
  SetMode(mode);
}

void AfterFork() {
  const SignalBlock block;
  if (!Forked()) return;
  __atomic_store_n(&pulse.mode, static_cast<uint64_t>(Mode::kStarting), __ATOMIC_RELAXED);
  const ImageEntry* parent = process.image;
  const uint32_t fork_number = __atomic_fetch_add(&process.image->forks, 1, __ATOMIC_RELAXED);
  ImageEntry* entry = ClaimImage();
  if (entry != nullptr) {
    entry->start_time = StartTime();
    entry->parent_place = parent->forked != 0 ? parent->parent_place : parent->place;
    entry->forked = 1;
    process.image = entry;
    __atomic_store_n(&entry->place, MixPath(parent->place, fork_number), __ATOMIC_RELEASE);
  }
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

void Say(const char* message) {
  if (process.image == nullptr || process.image->message[0] != 0) return;
  const size_t bytes = strnlen(message, sizeof(process.image->message) - 1);
  memcpy(process.image->message, message, bytes);
}

void SayNotDeepBound(const char* library) {
  constexpr size_t kNameBytes = 80;
  char message[sizeof(ImageEntry::message)];
  const char* name = library != nullptr ? strrchr(library, '/') : nullptr;
  name = name != nullptr ? name + 1 : library != nullptr ? library : "the program";
  snprintf(message, sizeof(message),
           "%.*s is loaded without RTLD_DEEPBIND, which would give it another malloc",
           static_cast<int>(kNameBytes), name);
  Say(message);
}

__attribute__((hot)) bool IsOwnImage() {
  return process.image != nullptr && static_cast<uint32_t>(ProcessId()) == process.image->pid;
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
  return self.has_written != 0 || self.lane_tried != 0 || self.heap != nullptr ||
         self.aligned_heap != nullptr;
}

}  // namespace

__attribute__((hot)) void NoteEnd() {
  if (!IsOwnImage()) return;
  if (process.behind && process.mode >= Mode::kRecord && !HasAllocated()) {
    Say("its own malloc, or one that LD_PRELOAD names first, stands in front of reprise's: what it "
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
    Advise(scratch, kScratchBytes, MADV_DONTNEED);
    // Linux maps 64 KiB of code at once, as far as the mapping goes. What a run needs that follows
    // its plan is less (CMakeLists.txt): its mapping ends where another kind begins.
    const uint64_t begin = reinterpret_cast<uint64_t>(&ReplayRealloc) & ~(kCodeAlignment - 1);
    Advise(reinterpret_cast<void*>(begin + kHotBytes), 4096, MADV_RANDOM);
    if (HasLongPlan()) MapFallbackCodeInPieces();
    // Code goes when the first lane is taken (replayer.cc), which may have been before this.
    if (self.lane_tried != 0) DropPagesOfStart();
  }
}

__attribute__((destructor)) void OnExit() {
  if (process.image == nullptr || Forked()) return;
  // The ends of the libraries bring pages of theirs.
  if (process.mode >= Mode::kReplay) DropPlan();
  NoteEnd();
  EndRecording();
  if (process.mode >= Mode::kReplay && HasLongPlan()) DropCodeOfStart();
}

}  // namespace

}  // namespace reprise::interpose

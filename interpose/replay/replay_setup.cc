#include "interpose/replay/replay_setup.h"

#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

#include "base/mutex.h"
#include "base/system_call.h"
#include "interpose/process/address_map.h"
#include "interpose/process/modules.h"
#include "interpose/process/process.h"
#include "interpose/process/shared_page.h"

namespace reprise::interpose {

using replay::Arena;
using replay::IsTold;
using replay::LaneCounters;
using replay::LiveKey;
using replay::LiveKeys;
using replay::LiveSite;
using replay::PlanHeader;
using replay::PlanKey;
using replay::PlanModule;

REPRISE_SHARED_PAGE constinit Arena replay_arena{};

namespace {

// The shared heap grows up to here, and the boxes come behind it.
constexpr uint64_t kMostHeap = 128 * kGiB;

struct Replay {
  const PlanHeader* plan;
  LiveKey* keys;
  uint64_t* bases;  // LiveKeys::modules
  LaneCounters* counters;
  replay::ModuleRange* modules;  // in the counters' file
  replay::Mutex learn_lock;
  uint8_t* module_known;  // per module of the plan: its keys have their addresses
  uint32_t modules_known;
};

REPRISE_SHARED_PAGE constinit Replay replay_state{};

template <typename T>
const T* Table(const replay::PlanTable& table) {
  return reinterpret_cast<const T*>(reinterpret_cast<const char*>(replay_state.plan) +
                                    table.offset);
}

const char* String(uint32_t offset) { return Table<char>(replay_state.plan->strings) + offset; }

bool SameBuildId(const LoadedModule& module, const char* hexadecimal, uint32_t digits) {
  if (module.build_id_bytes * 2 != digits) return false;
  for (size_t i = 0; i < module.build_id_bytes; ++i) {
    static constexpr char kDigits[] = "0123456789abcdef";
    if (hexadecimal[2 * i] != kDigits[module.build_id[i] >> 4] ||
        hexadecimal[2 * i + 1] != kDigits[module.build_id[i] & 15]) {
      return false;
    }
  }
  return true;
}

// Gives the keys of the plan's modules that are this one their addresses. True when there were any
// that had none.
bool LearnModule(const LoadedModule& module) {
  const PlanHeader& plan = *replay_state.plan;
  const auto* modules = Table<PlanModule>(plan.modules);
  const auto* keys = Table<PlanKey>(plan.keys);
  const size_t path_bytes = strnlen(module.path, 4096);
  bool learned = false;
  for (uint32_t index = 0; index < plan.modules.count; ++index) {
    const PlanModule& known = modules[index];
    if (replay_state.module_known[index] != 0) continue;
    const bool same = known.build_id_bytes > 0
                          ? SameBuildId(module, String(known.build_id_offset), known.build_id_bytes)
                          : known.path_bytes == path_bytes &&
                                memcmp(String(known.path_offset), module.path, path_bytes) == 0;
    if (!same) continue;
    __atomic_store_n(&replay_state.bases[index], module.base + 1, __ATOMIC_RELEASE);
    for (uint64_t key = 0; key < plan.keys.count; ++key) {
      if (keys[key].module != index || IsTold(key, keys[key])) continue;
      const uint64_t address = module.base + keys[key].site_offset;
      __atomic_store_n(&replay_state.keys[key].site, LiveSite(address, keys[key].depth),
                       __ATOMIC_RELEASE);
    }
    replay_state.module_known[index] = 1;
    replay_state.modules[index] = {module.base, module.begin, module.end};
    __atomic_fetch_add(&replay_state.modules_known, 1, __ATOMIC_RELAXED);
    learned = true;
  }
  return learned;
}

// LiveKeys::learn. A thread that keeps missing asks for every request: the answer must cost nothing
// when every module of the plan has been seen, and little for the module that was asked for last.
bool LearnSite(uint64_t site) {
  const uint32_t known = __atomic_load_n(&replay_state.modules_known, __ATOMIC_RELAXED);
  if (known == replay_state.plan->modules.count) return false;
  const uint64_t address = replay::AddressOfSite(site);
  const uint32_t generation = __atomic_load_n(&module_generation, __ATOMIC_ACQUIRE);
  static __thread struct {
    uint64_t begin, bytes;
    uint32_t generation;
  } asked;
  if (address - asked.begin < asked.bytes && asked.generation == generation) return false;
  LoadedModule module;
  if (!FindModule(address, &module)) return false;
  asked = {module.begin, module.end - module.begin, generation};
  const SignalBlock block;
  replay_state.learn_lock.Lock();
  const bool learned = LearnModule(module);
  replay_state.learn_lock.Unlock();
  return learned;
}

// The plan for this image, or null.
const PlanEntry* FindPlan() {
  const auto* entries = reinterpret_cast<const PlanEntry*>(process.session + 1);
  const uint32_t count = process.session->plans;
  uint32_t first = 0;
  while (first < count && entries[first].place != process.image->place) ++first;
  if (first == count) {
    for (uint32_t i = 0; i < count && process.image_number == 0; ++i) {
      if (entries[i].root != 0) return &entries[i];
    }
    return nullptr;
  }
  // Images of the same place are told apart by the order in which they come, no more.
  uint32_t same = 1;
  while (first + same < count && entries[first + same].place == process.image->place) ++same;
  const uint32_t number = __atomic_fetch_add(&process.taken[first], 1, __ATOMIC_RELAXED);
  return &entries[first + number % same];
}

// Whether an open file is the one that the launcher verified, and has not been written to since.
bool IsVerified(int fd, const PlanEntry& entry) {
  struct stat info;
  return SystemCall(SYS_fstat, fd, reinterpret_cast<long>(&info)) == 0 && S_ISREG(info.st_mode) &&
         info.st_dev == entry.device && info.st_ino == entry.inode &&
         static_cast<uint64_t>(info.st_size) == entry.bytes &&
         info.st_ctim.tv_sec == entry.changed && info.st_ctim.tv_nsec == entry.changed_nanoseconds;
}

// Maps the plan file; false with a message when it is not what it should be. The launcher has
// verified checksum and meaning; what is looked at here is whether it is still that file.
bool MapPlan(const PlanEntry& entry) {
  const int fd = OpenFile(entry.path, O_RDONLY | O_NONBLOCK);
  if (fd < 0) {
    ReportToLauncher("not replayed: its plan cannot be opened");
    return false;
  }
  if (!IsVerified(fd, entry)) {
    ReportToLauncher("not replayed: its plan was replaced or changed after it was verified");
    CloseFile(fd);
    return false;
  }
  const long bytes = SystemCall(SYS_lseek, fd, 0, SEEK_END);
  void* mapped = nullptr;
  if (bytes >= static_cast<long>(sizeof(PlanHeader)) &&
      static_cast<uint64_t>(bytes) < kPlanMap.bytes) {
    // Not at a multiple of 2 MiB: a file that the page cache holds in huge pages would be mapped in
    // huge pages, whatever madvise says, and each look at a word would add 2 MiB.
    mapped = MapAt(kPlanMap.begin + replay::kPlanStretch, bytes, PROT_READ, MAP_PRIVATE, fd);
    // Mappings of three kinds: pages come with those around them, but none of another mapping. With
    // one of what is left of the first stretch so many come that they would reach into the next.
    if (mapped != nullptr) {
      Advise(mapped, replay::kPlanFirst, MADV_RANDOM);
      if (static_cast<uint64_t>(bytes) > replay::kPlanStretch) {
        Advise(static_cast<char*>(mapped) + replay::kPlanFirst,
               replay::kPlanStretch - replay::kPlanFirst, MADV_SEQUENTIAL);
      }
    }
  }
  CloseFile(fd);
  const auto* plan = static_cast<const PlanHeader*>(mapped);
  if (plan == nullptr || plan->magic != replay::kPlanMagic ||
      plan->version != replay::kPlanVersion || plan->byte_order != replay::kPlanByteOrder ||
      plan->file_bytes != static_cast<uint64_t>(bytes) || plan->checksum != entry.checksum) {
    ReportToLauncher("not replayed: its plan is not a plan file of this version");
    return false;
  }
  replay_state.plan = plan;
  return true;
}

// DIRECTORY/counters.NUMBER. Printing it would leave 64 KiB of libc's code in memory.
void NameCounters(char* path) {
  char* at = stpcpy(stpcpy(path, process.session->directory), "/counters.");
  uint32_t number = process.image_number;
  uint32_t digits = 1;
  for (uint32_t left = number; left >= 10; left /= 10) ++digits;
  at[digits] = 0;
  for (; digits > 0; number /= 10) at[--digits] = static_cast<char>('0' + number % 10);
}

// The counters lie in a file, so that nothing is lost however the program ends; where no file can
// be made they are only memory, and the launcher sees none.
LaneCounters* MapCounters(uint64_t bytes) {
  char path[kPathBytes + 32];
  NameCounters(path);
  const int fd = OpenFile(path, O_RDWR | O_CREAT | O_EXCL);
  void* mapped = nullptr;
  if (fd >= 0) {
    if (!Failed(SystemCall(SYS_ftruncate, fd, static_cast<long>(bytes)))) {
      mapped = MapAt(kCountersMap.begin, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, fd);
    }
    if (mapped != nullptr && Advise(mapped, bytes, MADV_POPULATE_WRITE) != 0) mapped = nullptr;
    // Most of it is notes, of which few are written. The disk keeps the room.
    if (mapped != nullptr && WritesInPlace(fd)) Advise(mapped, bytes, MADV_DONTNEED);
    CloseFile(fd);
  }
  if (mapped == nullptr) mapped = MapMemory(kCountersMap.begin, bytes);
  return static_cast<LaneCounters*>(mapped);
}

// Huge pages save faults and misses of the translation buffer. Where all of one becomes resident in
// any case it costs no memory at the peak; elsewhere the small pages of MapMemory stay.
void ChoosePages(char* blocks) {
  const uint32_t flags = process.session->flags;
  if ((flags & kSessionNoHugePages) != 0) return;
  const PlanHeader& plan = *replay_state.plan;
  // The arena begins at a multiple of one.
  const auto use = [blocks](uint64_t first, uint64_t count) {
    Advise(blocks + first * replay::kHugePage, count * replay::kHugePage, MADV_HUGEPAGE);
  };
  if ((flags & kSessionHugePages) != 0) return use(0, plan.arena_bytes / replay::kHugePage);
  const auto* dense = Table<uint32_t>(plan.dense);
  for (uint64_t i = 0, next; i < plan.dense.count; i = next) {
    for (next = i + 1; next < plan.dense.count && dense[next] == dense[i] + (next - i); ++next) {
    }
    use(dense[i], next - i);
  }
}

// Addresses that count as no memory until they are made writable, with small pages. MAP_NORESERVE
// would go on without the system's check when they are.
char* MapReserved(uint64_t address, uint64_t bytes, int protection) {
  void* mapped = MapAt(address, bytes, protection, MAP_PRIVATE | MAP_ANONYMOUS);
  if (mapped != nullptr) Advise(mapped, bytes, MADV_NOHUGEPAGE);
  return static_cast<char*>(mapped);
}

// The keys of the plan as this process has them, and where its modules lie: of so many bytes.
uint64_t KeyBytes(const PlanHeader& plan) {
  return (2 * plan.keys.count * sizeof(LiveKey) + plan.modules.count * (sizeof(uint64_t) + 1) +
          plan.keys.count + 4095) &
         ~uint64_t{4095};
}

LiveKeys SetUpKeys(const PlanHeader& plan, char* memory) {
  replay_state.keys = reinterpret_cast<LiveKey*>(memory) + plan.keys.count;
  replay_state.bases = reinterpret_cast<uint64_t*>(replay_state.keys + plan.keys.count);
  replay_state.module_known = reinterpret_cast<uint8_t*>(replay_state.bases + plan.modules.count);
  uint8_t* sizes = replay_state.module_known + plan.modules.count;
  const auto* keys = Table<PlanKey>(plan.keys);
  for (uint64_t key = 0; key < plan.keys.count; ++key) {
    if (keys[key].shape == 0) continue;  // stays untouched
    sizes[key] = LiveKeys::SizeOf(keys[key]);
    if (IsTold(key, keys[key])) continue;
    replay_state.keys[key].shape = keys[key].shape;
    if (keys[key].module == replay::kNoModule && keys[key].site_offset != 0) {
      replay_state.keys[key].site = LiveSite(keys[key].site_offset, keys[key].depth);
    }
  }
  ForEachModule([](const LoadedModule& module, void*) { LearnModule(module); }, nullptr);
  return {replay_state.keys, LearnSite, sizes, keys, replay_state.bases};
}

bool SetUpArena() {
  const PlanHeader& plan = *replay_state.plan;
  const auto layout = replay::CountersLayout::Of(plan);
  char* counters = reinterpret_cast<char*>(replay_state.counters);
  const uint64_t key_bytes = KeyBytes(plan);
  const uint64_t state_bytes = Arena::StateBytes(plan, kMostHeap);
  if (plan.arena_bytes > kArena.bytes - kMostHeap) return false;
  if (key_bytes + state_bytes > kArenaState.bytes) return false;
  replay::ArenaMemory memory{};
  memory.heap_bytes = kMostHeap;
  memory.blocks = MapReserved(kArena.begin, kMostHeap + plan.arena_bytes, PROT_NONE);
  memory.state = MapReserved(kArenaState.begin + key_bytes, state_bytes, PROT_READ);
  char* keys = static_cast<char*>(MapMemory(kArenaState.begin, key_bytes));
  if (memory.blocks == nullptr || memory.state == nullptr || keys == nullptr) return false;
  ChoosePages(memory.blocks + kMostHeap);
  memory.counters = replay_state.counters;
  memory.notes = reinterpret_cast<replay::NotePage*>(counters + layout.notes);
  memory.releases = (process.session->flags & kSessionRelease) != 0;
  replay_state.modules = reinterpret_cast<replay::ModuleRange*>(counters + layout.modules);
  return replay_arena.Start(&plan, SetUpKeys(plan, keys), memory);
}

// The program itself is the first module that the loader lists.
bool IsRecordedBuild() {
  struct Search {
    bool first = true;
    bool same = true;
  } search;
  ForEachModule(
      [](const LoadedModule& module, void* context) {
        auto* found = static_cast<Search*>(context);
        if (!found->first) return;
        found->first = false;
        const PlanHeader& plan = *replay_state.plan;
        found->same = SameBuildId(module, String(plan.build_id_offset), plan.build_id_bytes);
      },
      &search);
  return search.same;
}

// What stands behind the last '/' of a path of so many bytes.
struct FileName {
  FileName(const char* path, size_t length) {
    const auto* slash = static_cast<const char*>(memrchr(path, '/', length));
    text = slash != nullptr ? slash + 1 : path;
    bytes = static_cast<size_t>(path + length - text);
  }
  bool operator==(const FileName& other) const {
    return bytes == other.bytes && memcmp(text, other.text, bytes) == 0;
  }
  int shown() const {
    constexpr size_t kMost = 64;
    return static_cast<int>(bytes < kMost ? bytes : kMost);
  }
  const char* text;
  size_t bytes;
};

// A program of another name is another program, one of the same name another build.
void WarnOfAnotherProgram() {
  const PlanHeader& plan = *replay_state.plan;
  const FileName recorded(String(plan.executable_offset), plan.executable_bytes);
  const FileName started(process.executable, strnlen(process.executable, kPathBytes));
  const bool same_name = recorded.bytes == 0 || recorded == started;
  if (plan.build_id_bytes > 0 ? IsRecordedBuild() : same_name) return;
  if (same_name) {
    return ReportToLauncher(
        "another build than the recorded one (its build id differs): expect few allocations to "
        "match the plan");
  }
  char message[sizeof(ImageEntry::message)];
  snprintf(message, sizeof(message),
           "another program than the recorded one: the plan is for %.*s, %.*s was started: expect "
           "few allocations to match the plan",
           recorded.shown(), recorded.text, started.shown(), started.text);
  ReportToLauncher(message);
}

}  // namespace

bool StartReplay() {
  static const char* const kForeign[] = {"mallocx",   "rallocx",    "xallocx",   "sallocx",
                                         "dallocx",   "sdallocx",   "tc_malloc", "tc_free",
                                         "tc_calloc", "tc_realloc", "tc_delete", "tc_free_sized",
                                         "mi_malloc", "mi_free",    "mi_calloc", "mi_realloc",
                                         "mi_zalloc", "mi_new",     "mi_strdup", "mi_usable_size"};
  const PlanEntry* entry = FindPlan();
  if (entry == nullptr) {
    if (process.image_number == 0) ReportToLauncher("not replayed: no plan was made for it");
    return false;
  }
  if (!process.reserved) {
    ReportToLauncher(
        "not replayed: the arena's addresses are taken or may not be reserved (RLIMIT_AS, "
        "RLIMIT_DATA)");
    return false;
  }
  if (AnyModuleCalls(kForeign, sizeof(kForeign) / sizeof(kForeign[0]))) {
    ReportToLauncher(
        "not replayed: it calls its own allocator's entry points (mallocx, tc_malloc, mi_malloc) "
        "that cannot take blocks of the arena");
    return false;
  }
  if (!MapPlan(*entry)) return false;
  process.image->plan =
      static_cast<uint32_t>(entry - reinterpret_cast<const PlanEntry*>(process.session + 1));
  replay_state.counters = MapCounters(replay::CountersLayout::Of(*replay_state.plan).bytes);
  if (replay_state.counters == nullptr || !SetUpArena()) {
    ReportToLauncher("not replayed: no room for the arena");
    return false;
  }
  process.image->lanes = static_cast<uint32_t>(replay_state.plan->lanes.count);
  WarnOfAnotherProgram();
  // Most of what was read of the plan is not read again.
  Advise(const_cast<char*>(reinterpret_cast<const char*>(replay_state.plan)) + replay::kPlanFirst,
         ((replay_state.plan->file_bytes + 4095) & ~uint64_t{4095}) - replay::kPlanFirst,
         MADV_DONTNEED);
  return true;
}

uint64_t ReplayCounterBytes() {
  return replay_state.counters != nullptr ? replay::CountersLayout::Of(*replay_state.plan).bytes
                                          : 0;
}
uint64_t ReplayStateBytes() {
  if (replay_state.counters == nullptr) return 0;
  return KeyBytes(*replay_state.plan) + Arena::StateBytes(*replay_state.plan, kMostHeap);
}
uint64_t ReplayPlanBytes() {
  if (replay_state.plan == nullptr) return 0;
  return replay::kPlanStretch + replay_state.plan->file_bytes;
}
uint64_t ReplayBlockBytes() {
  return replay_state.counters != nullptr ? kMostHeap + replay_state.plan->arena_bytes : 0;
}

void CutReplay() { replay_arena.StopGrowing(/*alone=*/process.mode == Mode::kReplayChild); }

}  // namespace reprise::interpose

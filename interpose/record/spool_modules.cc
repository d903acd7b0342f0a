#include "interpose/record/spool_modules.h"

#include <string.h>

#include "base/system_call.h"
#include "interpose/process/modules.h"
#include "interpose/process/process.h"
#include "interpose/process/shared_page.h"
#include "interpose/record/epochs.h"
#include "interpose/record/spool_chunks.h"

namespace reprise::interpose {

using trace::SpoolModule;

namespace {

constexpr uint32_t kMaxModules = trace::kSpoolMostModules;

// Modules whose record has been written, with the addresses [begin, end) of each.
struct Records {
  uint32_t count;
  uint64_t begin[kMaxModules];
  uint64_t end[kMaxModules];
};

constinit Records records{};
constinit uint32_t thread_names = 0;  // written

// Room for a record of the module area with `text_bytes` of text; null when there is none. Under
// the lock, signals blocked.
SpoolModule* BeginRecord(uint64_t text_bytes) {
  const uint64_t bytes = sizeof(SpoolModule) + text_bytes + 7;
  const uint64_t at = spool.header->module_bytes_used;
  if (at + bytes > trace::kSpoolModuleBytes) return nullptr;
  char* base = reinterpret_cast<char*>(spool.header) + trace::kSpoolHeaderBytes + at;
  if (!Populate(base, bytes)) return nullptr;
  auto* record = reinterpret_cast<SpoolModule*>(base);
  record->epoch = TakeEpoch();
  return record;
}

void EndRecord(SpoolModule* record) {
  const uint64_t bytes =
      (sizeof(SpoolModule) + record->path_bytes + record->build_id_bytes + 7) & ~uint64_t{7};
  __atomic_store_n(&record->bytes, static_cast<uint32_t>(bytes), __ATOMIC_RELEASE);
  __atomic_store_n(&spool.header->module_bytes_used, spool.header->module_bytes_used + bytes,
                   __ATOMIC_RELEASE);
}

// Appends the record of the module that holds `address`. Under the lock, signals blocked.
void WriteModule(uint64_t address) {
  LoadedModule module;
  if (records.count >= kMaxModules || !FindModule(address, &module)) return;
  const size_t path_bytes = strnlen(module.path, 4096);
  SpoolModule* record = BeginRecord(path_bytes + module.build_id_bytes);
  if (record == nullptr) return;
  record->path_bytes = static_cast<uint16_t>(path_bytes);
  record->build_id_bytes = static_cast<uint16_t>(module.build_id_bytes);
  record->base = module.base;
  record->begin = module.begin;
  record->end = module.end;
  char* text = reinterpret_cast<char*>(record + 1);
  memcpy(text, module.path, path_bytes);
  memcpy(text + path_bytes, module.build_id, module.build_id_bytes);
  EndRecord(record);
  const uint32_t count = records.count;
  records.begin[count] = module.begin;
  records.end[count] = module.end;
  __atomic_store_n(&modules_epoch, record->epoch, __ATOMIC_RELAXED);
  __atomic_store_n(&records.count, count + 1, __ATOMIC_RELEASE);
}

// Whether one of the first `count` modules holds `address`.
bool KnowsModule(uint64_t address, uint32_t count) {
  for (uint32_t i = count; i-- > 0;) {
    if (address - records.begin[i] < records.end[i] - records.begin[i]) return true;
  }
  return false;
}

}  // namespace

REPRISE_SHARED_PAGE uint64_t modules_epoch;

__attribute__((noinline, cold)) void LearnModule(uint64_t address) {
  const uint32_t count = __atomic_load_n(&records.count, __ATOMIC_ACQUIRE);
  if (!KnowsModule(address, count)) {
    const SignalBlock block;
    spool.lock.Lock();
    if (records.count == count) WriteModule(address);
    spool.lock.Unlock();
  }
  // Known or not: generated code lies outside every module.
  __atomic_store_n(KnownPage(address), address >> 12, __ATOMIC_RELEASE);
}

void ForgetModules() {
  const SignalBlock block;
  spool.lock.Lock();
  // Only what may have gone matters, but a look-up afresh costs little and is rare.
  for (uint32_t i = 0; i < records.count; ++i) {
    LoadedModule module;
    if (!FindModule(records.begin[i], &module) || module.begin != records.begin[i]) {
      records.begin[i] = records.end[i] = 0;
    }
  }
  for (uint64_t& page : fast_state.known_pages) __atomic_store_n(&page, 0, __ATOMIC_RELAXED);
  __atomic_fetch_add(&module_generation, 1, __ATOMIC_RELEASE);
  spool.lock.Unlock();
}

void ForgetModuleRecords() {
  memset(static_cast<void*>(&records), 0, sizeof(records));
  modules_epoch = 0;
  thread_names = 0;
}

namespace {

void SayCut(uint64_t kind) {
  ReportToLauncher(
      kind == trace::kSpoolEnvironment
          ? "its environment is longer than 65,000 bytes: the trace has the beginning of it"
          : "its command line is longer than 65,000 bytes: the trace has the beginning of it");
}

}  // namespace

void WriteText(uint64_t kind, const char* path) {
  constexpr uint64_t kMostBytes = 65000;
  const int fd = OpenFile(path, O_RDONLY);
  if (fd < 0) return;
  if (SpoolModule* record = BeginRecord(kMostBytes); record != nullptr) {
    record->base = kind;
    uint64_t used = 0;
    while (used < kMostBytes) {
      const long got = ReadFile(fd, reinterpret_cast<char*>(record + 1) + used, kMostBytes - used);
      if (got <= 0) break;
      used += static_cast<uint64_t>(got);
    }
    char more;
    if (ReadFile(fd, &more, 1) == 1) {
      SayCut(kind);
      // Up to the last one that is whole.
      const char* text = reinterpret_cast<const char*>(record + 1);
      while (used > 0 && text[used - 1] != 0) --used;
    }
    record->path_bytes = static_cast<uint16_t>(used);
    EndRecord(record);
  }
  CloseFile(fd);
}

void WriteThreadName(uint64_t path, const char* name) {
  constexpr uint32_t kMostNames = 1000;
  if (spool.header == nullptr) return;
  const SignalBlock block;
  spool.lock.Lock();
  const size_t bytes = strnlen(name, 64);
  if (SpoolModule* record = thread_names < kMostNames ? BeginRecord(bytes) : nullptr;
      record != nullptr) {
    record->base = trace::kSpoolThreadName;
    record->begin = record->end = path;
    record->path_bytes = static_cast<uint16_t>(bytes);
    memcpy(record + 1, name, bytes);
    EndRecord(record);
    ++thread_names;
  }
  spool.lock.Unlock();
}

}  // namespace reprise::interpose

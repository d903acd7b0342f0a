#include "interpose/process/process.h"

#include <stdio.h>
#include <string.h>

#include "base/system_call.h"
#include "interpose/process/real.h"
#include "interpose/process/shared_page.h"

namespace reprise::interpose {

constinit FastState fast_state{};
REPRISE_SHARED_PAGE constinit Process process = {.mode = Mode::kUnstarted,
                                                 .reserved = false,
                                                 .given_back = false,
                                                 .session = nullptr,
                                                 .registry = nullptr,
                                                 .entries = 0,
                                                 .taken = nullptr,
                                                 .image = nullptr,
                                                 .image_number = 0,
                                                 .executable = {},
                                                 .behind = false,
                                                 .loader = {}};

void SetMode(Mode mode) {
  fast_state.malloc = real.malloc;
  fast_state.free = real.free;
  fast_state.calloc = real.calloc;
  fast_state.realloc = real.realloc;
  __atomic_store(&process.mode, &mode, __ATOMIC_RELEASE);
  __atomic_store_n(&fast_state.mode, static_cast<uint64_t>(mode), __ATOMIC_RELEASE);
}

void ReportToLauncher(const char* message) {
  if (process.image == nullptr || process.image->message[0] != 0) return;
  const size_t bytes = strnlen(message, sizeof(process.image->message) - 1);
  memcpy(process.image->message, message, bytes);
}

void ReportNotDeepBound(const char* library) {
  constexpr size_t kNameBytes = 80;
  char message[sizeof(ImageEntry::message)];
  const char* name = library != nullptr ? strrchr(library, '/') : nullptr;
  name = name != nullptr ? name + 1 : library != nullptr ? library : "the program";
  snprintf(message, sizeof(message),
           "%.*s is loaded without RTLD_DEEPBIND, which would give it another malloc",
           static_cast<int>(kNameBytes), name);
  ReportToLauncher(message);
}

__attribute__((hot)) bool IsOwnImage() {
  return process.image != nullptr && static_cast<uint32_t>(ProcessId()) == process.image->pid;
}

}  // namespace reprise::interpose

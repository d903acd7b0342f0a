#include "interpose/exec.h"

#include <errno.h>
#include <string.h>
#include <unistd.h>

#include "interpose/process/modules.h"
#include "interpose/process/preloadable.h"
#include "interpose/process/process.h"
#include "interpose/record/recorder.h"
#include "interpose/startup.h"

namespace reprise::interpose {
namespace {

constexpr char kPreload[] = "LD_PRELOAD=";
constexpr size_t kPreloadBytes = sizeof(kPreload) - 1;

// libreprise.so, as LD_PRELOAD names it.
const char* Library() {
  LoadedModule ours;
  return FindModule(reinterpret_cast<uint64_t>(&Library), &ours) ? ours.path : "";
}

void Count() {
  if (process.image == nullptr) return;
  __atomic_fetch_add(&process.image->unpreloadable, 1, __ATOMIC_RELAXED);
  if (!Forked()) CountUnpreloadable();
}

// What execvp starts, when there is such a program in PATH.
Obstacle CheckInPath(const char* name, ProgramCheck* check) {
  const char* directories = nullptr;
  for (char** variable = environ; variable != nullptr && *variable != nullptr; ++variable) {
    if (strncmp(*variable, "PATH=", 5) == 0) directories = *variable + 5;
  }
  const size_t name_bytes = strlen(name);
  char candidate[kPathBytes];
  for (const char* at = directories != nullptr ? directories : "/bin:/usr/bin"; *at != 0;) {
    const size_t length = strcspn(at, ":");
    if (length + name_bytes + 2 < sizeof(candidate)) {
      memcpy(candidate, at, length);
      candidate[length] = '/';
      memcpy(candidate + length + 1, name, name_bytes + 1);
      CheckCommand(length != 0 ? candidate : name, Library(), process.loader, check);
      if (check->obstacle != Obstacle::kAbsent) break;
    }
    at += length;
    if (*at == ':') ++at;
  }
  return check->obstacle;
}

// Copies a list of libraries without ours, and returns where the copy ends.
char* CopyWithoutUs(const char* list, char* out) {
  const char* ours = Library();
  const size_t ours_bytes = strlen(ours);
  char* const begin = out;
  while (*list != 0) {
    const size_t length = strcspn(list, ": ");
    if (length != 0 && (length != ours_bytes || memcmp(list, ours, length) != 0)) {
      if (out != begin) *out++ = ':';
      memcpy(out, list, length);
      out += length;
    }
    list += length + (list[length] != 0);
  }
  *out = 0;
  return out;
}

}  // namespace

bool NoteStart(const char* path, bool search) {
  if (path == nullptr) return true;
  const int before = errno;
  ProgramCheck check;
  check.obstacle = Obstacle::kAbsent;
  if (!search) {
    CheckProgram(path, Library(), process.loader, &check);
  } else if (strchr(path, '/') != nullptr) {
    CheckCommand(path, Library(), process.loader, &check);
  } else {
    CheckInPath(path, &check);
  }
  if (RunsUnseen(check.obstacle)) Count();
  errno = before;
  return !FailsWithPreload(check.obstacle);
}

size_t BytesWithoutPreload(char* const environment[]) {
  size_t bytes = sizeof(char*);
  for (; environment != nullptr && *environment != nullptr; ++environment) {
    bytes += sizeof(char*);
    if (strncmp(*environment, kPreload, kPreloadBytes) == 0) bytes += strlen(*environment) + 1;
  }
  return bytes;
}

char* const* WithoutPreload(char* const environment[], void* room) {
  if (environment == nullptr) return environment;
  size_t count = 0;
  while (environment[count] != nullptr) ++count;
  auto** variables = static_cast<char**>(room);
  auto* text = reinterpret_cast<char*>(variables + count + 1);
  size_t kept = 0;
  for (size_t i = 0; i < count; ++i) {
    if (strncmp(environment[i], kPreload, kPreloadBytes) != 0) {
      variables[kept++] = environment[i];
      continue;
    }
    memcpy(text, kPreload, kPreloadBytes);
    char* end = CopyWithoutUs(environment[i] + kPreloadBytes, text + kPreloadBytes);
    if (end == text + kPreloadBytes) continue;  // there is no other library
    variables[kept++] = text;
    text = end + 1;
  }
  variables[kept] = nullptr;
  return variables;
}

void BeforeExec() {
  if (!IsOwnImage()) return;
  RecordImageEnd();
  EndRecording();
}

void ExecFailed() {
  if (IsOwnImage()) ResumeRecording();
}

}  // namespace reprise::interpose

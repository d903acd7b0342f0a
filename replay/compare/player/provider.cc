#include "replay/compare/player/provider.h"

#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include <dlfcn.h>
#include <gnu/libc-version.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>

namespace reprise::replay {

const char* const kFamily[kFamilySize] = {"malloc", "free", "calloc", "realloc", "posix_memalign"};

// The object that the dynamic linker binds `symbol` to. Not through &symbol, which may be a stub in
// the executable.
const char* ObjectOf(const char* symbol) {
  void* address = dlsym(RTLD_DEFAULT, symbol);
  Dl_info info;
  if (address == nullptr || dladdr(address, &info) == 0 || info.dli_fname == nullptr) return "";
  return info.dli_fname;
}

namespace {

// `symbol` if it comes from the same object as malloc: other allocators may be loaded and idle.
template <typename Function>
Function* Own(const char* symbol, const char* object) {
  if (strcmp(ObjectOf(symbol), object) != 0) return nullptr;
  return reinterpret_cast<Function*>(dlsym(RTLD_DEFAULT, symbol));
}

void WriteVersion(const char* object, char* out, size_t bytes) {
  out[0] = '\0';
  if (auto* mallctl = Own<int(const char*, void*, size_t*, void*, size_t)>("mallctl", object)) {
    const char* version = nullptr;
    size_t size = sizeof(version);
    if (mallctl("version", &version, &size, nullptr, 0) == 0 && version != nullptr) {
      // "5.3.0-0-g<commit>": what follows the first dash says nothing to a reader.
      snprintf(out, bytes, "%.*s", static_cast<int>(strcspn(version, "-")), version);
    }
  } else if (auto* mi_version = Own<int()>("mi_version", object)) {
    const int version = mi_version();
    snprintf(out, bytes, "%d.%d.%d", version / 100, version / 10 % 10, version % 10);
  } else if (auto* tc_version = Own<const char*(int*, int*, const char**)>("tc_version", object)) {
    int major = 0;
    int minor = 0;
    const char* patch = "";
    tc_version(&major, &minor, &patch);
    snprintf(out, bytes, "%d.%d%s", major, minor, patch != nullptr ? patch : "");
  } else if (Own<const char*()>("gnu_get_libc_version", object) != nullptr) {
    snprintf(out, bytes, "%s", gnu_get_libc_version());
  }
}

}  // namespace

Provider FindProvider() {
  Provider provider = {};
  const char* object = ObjectOf("malloc");
  snprintf(provider.object, sizeof(provider.object), "%s", object);
  for (const char* symbol : kFamily) {
    if (strcmp(ObjectOf(symbol), object) != 0) provider.mixed = true;
  }
  provider.usable = strcmp(ObjectOf("malloc_usable_size"), object) == 0;
  WriteVersion(object, provider.version, sizeof(provider.version));
  return provider;
}

}  // namespace reprise::replay

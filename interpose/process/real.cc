#include "interpose/process/real.h"

#include <dlfcn.h>

#include <type_traits>

#include "interpose/process/shared_page.h"

namespace reprise::interpose {

REPRISE_SHARED_PAGE constinit Real real{};

void* NextSymbol(const char* name) { return dlsym(RTLD_NEXT, name); }

void FindReal() {
  const auto find = [](auto& function, const char* name) {
    function = reinterpret_cast<std::remove_reference_t<decltype(function)>>(NextSymbol(name));
  };
  find(real.malloc, "malloc");
  find(real.free, "free");
  find(real.calloc, "calloc");
  find(real.realloc, "realloc");
  find(real.memalign, "memalign");
  find(real.aligned_alloc, "aligned_alloc");
  find(real.posix_memalign, "posix_memalign");
  find(real.valloc, "valloc");
  find(real.pvalloc, "pvalloc");
  find(real.malloc_usable_size, "malloc_usable_size");
  find(real.pthread_create, "pthread_create");
}

}  // namespace reprise::interpose

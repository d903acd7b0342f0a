#include "interpose/modules.h"

#include <dlfcn.h>
#include <elf.h>
#include <link.h>
#include <string.h>

#include "interpose/process.h"

namespace reprise::interpose {
namespace {

void FindBuildId(const ElfW(Phdr) * segment, int count, LoadedModule* module) {
  module->build_id = nullptr;
  module->build_id_bytes = 0;
  for (int i = 0; i < count; ++i) {
    if (segment[i].p_type != PT_NOTE) continue;
    uint64_t at = module->base + segment[i].p_vaddr;
    const uint64_t end = at + segment[i].p_memsz;
    if (at < module->begin || end > module->end) continue;
    while (at + sizeof(ElfW(Nhdr)) <= end) {
      const auto* note = reinterpret_cast<const ElfW(Nhdr)*>(at);
      const uint64_t name = at + sizeof(*note);
      const uint64_t descriptor = name + ((note->n_namesz + 3) & ~3u);
      if (descriptor + note->n_descsz > end) break;
      if (note->n_type == NT_GNU_BUILD_ID && note->n_namesz == 4 && note->n_descsz <= 64 &&
          memcmp(reinterpret_cast<const void*>(name), "GNU", 4) == 0) {
        module->build_id = reinterpret_cast<const unsigned char*>(descriptor);
        module->build_id_bytes = note->n_descsz;
        return;
      }
      at = descriptor + ((note->n_descsz + 3) & ~3u);
    }
  }
}

struct Visit {
  void (*visit)(const LoadedModule&, void*);
  void* context;
};

int VisitObject(dl_phdr_info* info, size_t, void* data) {
  LoadedModule module{};
  module.base = info->dlpi_addr;
  module.path = info->dlpi_name[0] != 0 ? info->dlpi_name : process.executable;
  module.begin = UINT64_MAX;
  for (int i = 0; i < info->dlpi_phnum; ++i) {
    if (info->dlpi_phdr[i].p_type != PT_LOAD) continue;
    const uint64_t begin = info->dlpi_addr + info->dlpi_phdr[i].p_vaddr;
    const uint64_t end = begin + info->dlpi_phdr[i].p_memsz;
    if (begin < module.begin) module.begin = begin;
    if (end > module.end) module.end = end;
  }
  FindBuildId(info->dlpi_phdr, info->dlpi_phnum, &module);
  const auto* visit = static_cast<const Visit*>(data);
  visit->visit(module, visit->context);
  return 0;
}

struct CallSearch {
  const char* const* names;
  size_t count;
  bool found;
};

// How many symbols a module's dynamic symbol table has: its hash table knows.
uint32_t CountSymbols(const uint32_t* gnu_hash) {
  const uint32_t buckets = gnu_hash[0];
  const uint32_t first = gnu_hash[1];
  const auto* bucket = gnu_hash + 4 + gnu_hash[2] * (sizeof(ElfW(Addr)) / 4);
  uint32_t last = 0;
  for (uint32_t i = 0; i < buckets; ++i) last = bucket[i] > last ? bucket[i] : last;
  if (last < first) return first;
  for (const uint32_t* chain = bucket + buckets + (last - first); (*chain & 1) == 0; ++chain) {
    ++last;
  }
  return last + 1;
}

int SearchObject(dl_phdr_info* info, size_t, void* data) {
  auto* search = static_cast<CallSearch*>(data);
  const ElfW(Dyn)* dynamic = nullptr;
  for (int i = 0; i < info->dlpi_phnum; ++i) {
    if (info->dlpi_phdr[i].p_type == PT_DYNAMIC) {
      dynamic = reinterpret_cast<const ElfW(Dyn)*>(info->dlpi_addr + info->dlpi_phdr[i].p_vaddr);
    }
  }
  const ElfW(Sym)* symbols = nullptr;
  const char* strings = nullptr;
  const uint32_t* gnu_hash = nullptr;
  for (; dynamic != nullptr && dynamic->d_tag != DT_NULL; ++dynamic) {
    // glibc has relocated these, but for those of the vDSO, which imports nothing.
    if (dynamic->d_un.d_ptr < info->dlpi_addr) continue;
    if (dynamic->d_tag == DT_SYMTAB) {
      symbols = reinterpret_cast<const ElfW(Sym)*>(dynamic->d_un.d_ptr);
    } else if (dynamic->d_tag == DT_STRTAB) {
      strings = reinterpret_cast<const char*>(dynamic->d_un.d_ptr);
    } else if (dynamic->d_tag == DT_GNU_HASH) {
      gnu_hash = reinterpret_cast<const uint32_t*>(dynamic->d_un.d_ptr);
    }
  }
  if (symbols == nullptr || strings == nullptr || gnu_hash == nullptr) return 0;
  const uint32_t count = CountSymbols(gnu_hash);
  for (uint32_t i = 1; i < count; ++i) {
    if (symbols[i].st_shndx != SHN_UNDEF) continue;
    for (size_t name = 0; name < search->count; ++name) {
      if (strcmp(strings + symbols[i].st_name, search->names[name]) == 0) search->found = true;
    }
  }
  return search->found ? 1 : 0;
}

}  // namespace

bool FindModule(uint64_t address, LoadedModule* module) {
  dl_find_object found;
  if (_dl_find_object(reinterpret_cast<void*>(address), &found) != 0) return false;
  const link_map* map = found.dlfo_link_map;
  *module = {};
  module->base = map->l_addr;
  module->begin = reinterpret_cast<uint64_t>(found.dlfo_map_start);
  module->end = reinterpret_cast<uint64_t>(found.dlfo_map_end);
  module->path = map->l_name[0] != 0 ? map->l_name : process.executable;
  // The file header lies at the first mapped address of every ordinary module.
  const auto* header = reinterpret_cast<const ElfW(Ehdr)*>(module->begin);
  if (memcmp(header->e_ident, ELFMAG, SELFMAG) == 0) {
    FindBuildId(reinterpret_cast<const ElfW(Phdr)*>(module->begin + header->e_phoff),
                header->e_phnum, module);
  }
  return true;
}

void ForEachModule(void (*visit)(const LoadedModule& module, void* context), void* context) {
  Visit data{visit, context};
  dl_iterate_phdr(VisitObject, &data);
}

bool AnyModuleCalls(const char* const* names, size_t count) {
  CallSearch search{names, count, false};
  dl_iterate_phdr(SearchObject, &search);
  return search.found;
}

}  // namespace reprise::interpose

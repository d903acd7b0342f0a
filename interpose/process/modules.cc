#include "interpose/process/modules.h"

#include <dlfcn.h>
#include <elf.h>
#include <link.h>
#include <string.h>

#include "base/system_call.h"
#include "interpose/process/process.h"
#include "interpose/process/shared_page.h"

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

constexpr size_t kMostNames = 32;

struct CallSearch {
  const char* const* names;
  size_t count;
  uint64_t defined[kMostNames];  // where each is in this process; 0: nowhere, or nobody asks for it
  bool imported[kMostNames];
  bool found;
};

// What SearchObject needs of a module's dynamic section.
struct Imports {
  const ElfW(Sym) * symbols;
  const char* strings;
  const ElfW(Rela) * relocations[2];  // of calls, and of data
  uint64_t bytes[2];
};

Imports FindImports(const dl_phdr_info& info) {
  Imports imports{};
  const ElfW(Dyn)* dynamic = nullptr;
  for (int i = 0; i < info.dlpi_phnum; ++i) {
    if (info.dlpi_phdr[i].p_type == PT_DYNAMIC) {
      dynamic = reinterpret_cast<const ElfW(Dyn)*>(info.dlpi_addr + info.dlpi_phdr[i].p_vaddr);
    }
  }
  for (; dynamic != nullptr && dynamic->d_tag != DT_NULL; ++dynamic) {
    const uint64_t value = dynamic->d_un.d_val;
    if (dynamic->d_tag == DT_PLTRELSZ) imports.bytes[0] = value;
    if (dynamic->d_tag == DT_RELASZ) imports.bytes[1] = value;
    // glibc has relocated the addresses, but for those of the vDSO, which imports nothing.
    if (value < info.dlpi_addr) continue;
    switch (dynamic->d_tag) {
      case DT_SYMTAB:
        imports.symbols = reinterpret_cast<const ElfW(Sym)*>(value);
        break;
      case DT_STRTAB:
        imports.strings = reinterpret_cast<const char*>(value);
        break;
      case DT_JMPREL:
        imports.relocations[0] = reinterpret_cast<const ElfW(Rela)*>(value);
        break;
      case DT_RELA:
        imports.relocations[1] = reinterpret_cast<const ElfW(Rela)*>(value);
        break;
      default:
        break;
    }
  }
  return imports;
}

// Calls visit(name of an imported symbol, its relocation) for each. Every import that is used has a
// relocation; the tables of symbols do not say how long they are.
template <typename Visitor>
void ForEachImport(const dl_phdr_info& info, Visitor visit) {
  const Imports imports = FindImports(info);
  if (imports.symbols == nullptr || imports.strings == nullptr) return;
  for (int table = 0; table < 2; ++table) {
    const ElfW(Rela)* relocation = imports.relocations[table];
    if (relocation == nullptr) continue;
    for (uint64_t left = imports.bytes[table] / sizeof(*relocation); left > 0; --left) {
      const ElfW(Sym)& symbol = imports.symbols[ELF64_R_SYM(relocation->r_info)];
      if (symbol.st_shndx == SHN_UNDEF && symbol.st_name != 0) {
        visit(imports.strings + symbol.st_name);
      }
      ++relocation;
    }
  }
}

int SearchObject(dl_phdr_info* info, size_t, void* data) {
  auto* search = static_cast<CallSearch*>(data);
  // A library's calls of what it defines itself do not count.
  uint64_t end = 0;
  for (int i = 0; i < info->dlpi_phnum; ++i) {
    const ElfW(Phdr)& segment = info->dlpi_phdr[i];
    if (segment.p_type == PT_LOAD) end = info->dlpi_addr + segment.p_vaddr + segment.p_memsz;
  }
  ForEachImport(*info, [=](const char* imported) {
    for (size_t name = 0; name < search->count; ++name) {
      if (strcmp(imported, search->names[name]) != 0) continue;
      search->imported[name] = true;
      const uint64_t at = search->defined[name];
      if (at != 0 && (at < info->dlpi_addr || at >= end)) search->found = true;
    }
  });
  return search->found ? 1 : 0;
}

}  // namespace

REPRISE_SHARED_PAGE uint32_t module_generation = 1;

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

namespace {

uint32_t GnuHash(const char* name) {
  uint32_t hash = 5381;
  for (; *name != 0; ++name) hash = hash * 33 + static_cast<unsigned char>(*name);
  return hash;
}

}  // namespace

void* SymbolOf(uint64_t address, const char* name) {
  dl_find_object found;
  if (_dl_find_object(reinterpret_cast<void*>(address), &found) != 0) return nullptr;
  const link_map* map = found.dlfo_link_map;
  const ElfW(Sym)* symbols = nullptr;
  const char* strings = nullptr;
  const uint32_t* table = nullptr;  // DT_GNU_HASH
  for (const ElfW(Dyn)* entry = map->l_ld; entry->d_tag != DT_NULL; ++entry) {
    const void* at = reinterpret_cast<const void*>(entry->d_un.d_ptr);
    if (entry->d_tag == DT_SYMTAB) symbols = static_cast<const ElfW(Sym)*>(at);
    if (entry->d_tag == DT_STRTAB) strings = static_cast<const char*>(at);
    if (entry->d_tag == DT_GNU_HASH) table = static_cast<const uint32_t*>(at);
  }
  if (symbols == nullptr || strings == nullptr || table == nullptr) return nullptr;
  const uint32_t buckets = table[0], first_hashed = table[1], filter_words = table[2];
  const uint32_t* bucket = table + 4 + 2 * filter_words;
  const uint32_t* chain = bucket + buckets;
  const uint32_t hash = GnuHash(name);
  for (uint32_t index = bucket[hash % buckets]; index >= first_hashed; ++index) {
    const ElfW(Sym)& symbol = symbols[index];
    const uint32_t other = chain[index - first_hashed];
    if ((other | 1) == (hash | 1) && symbol.st_shndx != SHN_UNDEF &&
        strcmp(strings + symbol.st_name, name) == 0) {
      return reinterpret_cast<void*>(map->l_addr + symbol.st_value);
    }
    if ((other & 1) != 0) break;
  }
  return nullptr;
}

void ForEachModule(void (*visit)(const LoadedModule& module, void* context), void* context) {
  Visit data{visit, context};
  dl_iterate_phdr(VisitObject, &data);
}

bool AnyModuleCalls(const char* const* names, size_t count) {
  CallSearch search{names, count < kMostNames ? count : kMostNames, {}, {}, false};
  dl_iterate_phdr(SearchObject, &search);
  // A look-up that fails allocates and frees: only what somebody imports is looked up.
  bool any = false;
  for (size_t name = 0; name < search.count; ++name) {
    if (!search.imported[name]) continue;
    search.defined[name] = reinterpret_cast<uint64_t>(dlsym(RTLD_DEFAULT, names[name]));
    any = any || search.defined[name] != 0;
  }
  if (any) dl_iterate_phdr(SearchObject, &search);
  return search.found;
}

}  // namespace reprise::interpose

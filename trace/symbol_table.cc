#include "trace/symbol_table.h"

#include <algorithm>
#include <iterator>
#include <tuple>

namespace reprise::trace {
namespace {

bool IsCode(const GElf_Sym& symbol) {
  const int type = GELF_ST_TYPE(symbol.st_info);
  return symbol.st_shndx != SHN_UNDEF &&
         (type == STT_FUNC || type == STT_GNU_IFUNC || type == STT_NOTYPE);
}

// Of several names for the same code the more public one.
int Preference(const GElf_Sym& symbol) {
  const int binding = GELF_ST_BIND(symbol.st_info);
  return binding == STB_GLOBAL ? 2 : binding == STB_WEAK ? 1 : 0;
}

}  // namespace

SymbolTable::SymbolTable(Dwfl_Module* module) : module_(module) {
  const int count = dwfl_module_getsymtab(module);
  for (int i = 0; i < count; ++i) {
    GElf_Sym symbol;
    GElf_Addr address = 0;
    const char* name =
        dwfl_module_getsym_info(module, i, &symbol, &address, nullptr, nullptr, nullptr);
    if (name == nullptr || *name == 0 || !IsCode(symbol)) continue;
    functions_.push_back({address, symbol.st_size, i, Preference(symbol)});
  }
  // The last of those that begin at the same address is preferred.
  std::sort(functions_.begin(), functions_.end(), [](const Function& a, const Function& b) {
    return std::tuple(a.begin, a.size != 0, a.preference, b.index) <
           std::tuple(b.begin, b.size != 0, b.preference, a.index);
  });
  const auto same = std::unique(functions_.rbegin(), functions_.rend(),
                                [](const auto& a, const auto& b) { return a.begin == b.begin; });
  functions_.erase(functions_.begin(), same.base());
}

const char* SymbolTable::Find(uint64_t address) const {
  constexpr int kMostNested = 16;  // functions that begin within the one that is looked for
  auto at = std::upper_bound(functions_.begin(), functions_.end(), address,
                             [](uint64_t a, const Function& b) { return a < b.begin; });
  // Where a function without a length ends is not known, but not behind the next one.
  if (at != functions_.begin() && std::prev(at)->size == 0) return NameOf(*std::prev(at));
  for (int tries = 0; tries < kMostNested && at != functions_.begin(); ++tries) {
    --at;
    if (address - at->begin < at->size) return NameOf(*at);
  }
  return nullptr;
}

const char* SymbolTable::NameOf(const Function& function) const {
  GElf_Sym symbol;
  GElf_Addr address = 0;
  return dwfl_module_getsym_info(module_, function.index, &symbol, &address, nullptr, nullptr,
                                 nullptr);
}

}  // namespace reprise::trace

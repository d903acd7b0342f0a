// Names of libc's functions, beside those that elfutils finds one by one.
#include "trace/symbol_table.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <link.h>

#include <cstdint>
#include <cstring>
#include <map>
#include <string>
#include <vector>

namespace reprise::trace {
namespace {

std::string PathOfLibc() {
  std::string path;
  dl_iterate_phdr(
      [](dl_phdr_info* info, size_t, void* data) {
        if (std::strstr(info->dlpi_name, "/libc.so") == nullptr) return 0;
        *static_cast<std::string*>(data) = info->dlpi_name;
        return 1;
      },
      &path);
  return path;
}

TEST(SymbolTable, NamesTheSameFunctionsAsElfutils) {
  const std::string path = PathOfLibc();
  ASSERT_FALSE(path.empty());
  static const Dwfl_Callbacks kCallbacks = {
      .find_elf = [](Dwfl_Module*, void**, const char*, Dwarf_Addr, char**, Elf**) { return -1; },
      .find_debuginfo = [](Dwfl_Module*, void**, const char*, Dwarf_Addr, const char*, const char*,
                           GElf_Word, char**) { return -1; },
      .section_address = dwfl_offline_section_address,
      .debuginfo_path = nullptr,
  };
  Dwfl* session = dwfl_begin(&kCallbacks);
  Dwfl_Module* module = dwfl_report_offline(session, path.c_str(), path.c_str(),
                                            open(path.c_str(), O_RDONLY | O_CLOEXEC));
  ASSERT_NE(module, nullptr);
  dwfl_report_end(session, nullptr, nullptr);
  const SymbolTable table(module);
  std::map<std::string, uint64_t> begins;
  std::vector<uint64_t> addresses;
  for (int i = 0; i < dwfl_module_getsymtab(module); ++i) {
    GElf_Sym symbol;
    GElf_Addr begin = 0;
    const char* name =
        dwfl_module_getsym_info(module, i, &symbol, &begin, nullptr, nullptr, nullptr);
    if (GELF_ST_TYPE(symbol.st_info) != STT_FUNC || symbol.st_shndx == SHN_UNDEF) continue;
    begins[name] = begin;
    if (i % 8 == 0) addresses.insert(addresses.end(), {begin, begin + symbol.st_size - 1});
  }
  ASSERT_GT(addresses.size(), 200u);
  for (const uint64_t address : addresses) {
    const char* expected = dwfl_module_addrname(module, address);
    const char* found = table.Find(address);
    ASSERT_NE(found, nullptr) << address;
    // Of names for the same code either will do.
    EXPECT_EQ(begins[found], begins[expected]) << found << " for " << expected;
  }
  EXPECT_EQ(table.Find(0), nullptr);
  EXPECT_EQ(table.Find(UINT64_MAX), nullptr);
  dwfl_end(session);
}

}  // namespace
}  // namespace reprise::trace

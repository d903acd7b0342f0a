// What is loaded.
#include "interpose/process/modules.h"

#include <dlfcn.h>
#include <gnu/libc-version.h>
#include <gtest/gtest.h>

#include <cstdint>

namespace reprise::interpose {
namespace {

const volatile uint8_t constant = 7;

TEST(ModulesTest, FindsTheModuleOfAnAddress) {
  LoadedModule module;
  const auto address = reinterpret_cast<uint64_t>(&constant);
  ASSERT_TRUE(FindModule(address, &module));
  EXPECT_LE(module.begin, address);
  EXPECT_GT(module.end, address);
  EXPECT_FALSE(FindModule(0, &module));
}

TEST(ModulesTest, FindsTheFunctionsOfAModuleByName) {
  const auto libc = reinterpret_cast<uint64_t>(&gnu_get_libc_version);
  for (const char* name : {"gnu_get_libc_version", "dlvsym", "strtol", "fopen"}) {
    EXPECT_EQ(SymbolOf(libc, name), dlsym(RTLD_NEXT, name)) << name;
  }
  EXPECT_EQ(SymbolOf(libc, "no_such_function"), nullptr);
  EXPECT_EQ(SymbolOf(0, "dlvsym"), nullptr);
}

}  // namespace
}  // namespace reprise::interpose

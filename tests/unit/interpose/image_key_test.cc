// Places in the process tree, and the side heap.
#include "interpose/process/image_key.h"

#include <gtest/gtest.h>
#include <sys/mman.h>

#include <cstring>
#include <future>
#include <set>
#include <string>
#include <thread>
#include <vector>

#include "interpose/process/address_map.h"
#include "interpose/process/process.h"
#include "interpose/process/session.h"
#include "interpose/process/side_heap.h"
#include "interpose/process/thread_state.h"
#include "interpose/process/threads.h"

namespace reprise::interpose {
namespace {

uint64_t PlaceOf(uint64_t parent, const char* executable, const std::string& arguments,
                 const char* directory = "/home/me") {
  return Place(parent, executable, arguments.data(), arguments.size(), directory);
}

const std::string kZero(1, '\0');

TEST(PlaceTest, EveryPartCounts) {
  const std::string arguments = "cc" + kZero + "-c" + kZero + "a.c" + kZero;
  const uint64_t place = PlaceOf(1, "/bin/cc", arguments);
  EXPECT_EQ(place, PlaceOf(1, "/bin/cc", arguments));
  EXPECT_NE(place, PlaceOf(2, "/bin/cc", arguments));
  EXPECT_NE(place, PlaceOf(1, "/bin/c++", arguments));
  EXPECT_NE(place, PlaceOf(1, "/bin/cc", "cc" + kZero + "-c" + kZero + "b.c" + kZero));
  EXPECT_NE(place, PlaceOf(1, "/bin/cc", arguments, "/home/you"));
  EXPECT_NE(place, PlaceOf(1, "/bin/cc", "cc" + kZero + "-ca.c" + kZero));
}

TEST(PlaceTest, TemporaryNamesDoNotCountButTheirExtensionsDo) {
  const auto with = [](const std::string& argument) {
    return PlaceOf(1, "/bin/as", "as" + kZero + argument + kZero);
  };
  EXPECT_EQ(with("/tmp/ccAbCdEf.s"), with("/tmp/ccZyXwVu.s"));
  EXPECT_EQ(with("-fresolution=/tmp/cc1.res"), with("-fresolution=/tmp/cc2.res"));
  EXPECT_NE(with("/tmp/ccAbCdEf.s"), with("/tmp/ccAbCdEf.o"));
  EXPECT_NE(with("-o/tmp/a"), with("-i/tmp/a"));
  EXPECT_EQ(with("/tmp/build.1/a"), with("/tmp/build.2/b"));
}

TEST(PlaceTest, IsNeverZero) { EXPECT_NE(Place(0, "", "", 0, ""), 0u); }

TEST(ThreadPathTest, DiffersByParentAndOrdinal) {
  EXPECT_NE(MixPath(kMainThreadPath, 0), MixPath(kMainThreadPath, 1));
  EXPECT_NE(MixPath(MixPath(kMainThreadPath, 0), 0), MixPath(kMainThreadPath, 0));
  EXPECT_NE(MixPath(kMainThreadPath, 0), kMainThreadPath);
}

// The names of threads that CreateThread did not make, each in a thread of its own.
uint64_t NameOf(uint64_t address, bool announced) {
  uint64_t name = 0;
  std::promise<void*> pointer;
  std::promise<void> told;
  std::thread thread([&] {
    pointer.set_value(__builtin_thread_pointer());
    told.get_future().wait();
    NameUnknownThread(address);
    name = this_thread.path;
  });
  void* thread_pointer = pointer.get_future().get();
  if (announced) AnnounceThread(thread_pointer);
  told.set_value();
  thread.join();
  return name;
}

TEST(ThreadNameTest, AnnouncedThreadsAreChildrenOfTheirCreatorOthersAreNumberedByPlace) {
  const Mode before = process.mode;
  process.mode = Mode::kRecord;
  this_thread.path = kMainThreadPath;
  this_thread.created = 0;
  const auto here = reinterpret_cast<uint64_t>(&NameOf);
  const auto there = reinterpret_cast<uint64_t>(&std::strlen);
  EXPECT_EQ(NameOf(here, true), MixPath(kMainThreadPath, 0));
  EXPECT_EQ(NameOf(here, true), MixPath(kMainThreadPath, 1));
  const uint64_t first = NameOf(here, false);
  const uint64_t elsewhere = NameOf(there, false);
  const uint64_t second = NameOf(here, false);
  EXPECT_EQ((std::set{first, elsewhere, second, MixPath(kMainThreadPath, 0)}.size()), 4u);
  process.mode = before;
}

// With our range reserved, as it is where a program is recorded.
class SideHeapTest : public testing::Test {
 protected:
  void SetUp() override {
    if (process.reserved) return;
    void* reserved = mmap(reinterpret_cast<void*>(kReserved.begin), kReserved.bytes, PROT_NONE,
                          MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_FIXED_NOREPLACE, -1, 0);
    if (reserved != reinterpret_cast<void*>(kReserved.begin)) GTEST_SKIP() << "range is taken";
    process.reserved = true;
  }
};

TEST_F(SideHeapTest, BlocksAreAlignedApartAndZeroed) {
  std::vector<char*> blocks;
  for (size_t alignment = 1; alignment <= 1 << 16; alignment *= 2) {
    for (const size_t size : {0, 1, 100, 5000, 100000}) {
      auto* block = static_cast<char*>(SideAllocate(size, alignment));
      ASSERT_NE(block, nullptr);
      EXPECT_EQ(reinterpret_cast<uint64_t>(block) % std::max<size_t>(alignment, 16), 0u);
      EXPECT_GE(SideUsable(block), size);
      EXPECT_TRUE(IsSide(block));
      for (size_t i = 0; i < size; ++i) ASSERT_EQ(block[i], 0);
      std::memset(block, static_cast<int>(blocks.size() + 1), size);
      blocks.push_back(block);
    }
  }
  size_t number = 0;
  for (size_t alignment = 1; alignment <= 1 << 16; alignment *= 2) {
    for (const size_t size : {0, 1, 100, 5000, 100000}) {
      char* block = blocks[number++];
      for (size_t i = 0; i < size; ++i) ASSERT_EQ(block[i], static_cast<char>(number));
      SideFree(block);
    }
  }
}

TEST_F(SideHeapTest, NothingIsMappedWhereNothingIsReserved) {
  auto* theirs = reinterpret_cast<char*>(kSideHeap.begin);
  ASSERT_TRUE(IsSide(theirs));
  process.reserved = false;
  auto* block = static_cast<char*>(SideAllocate(10000));
  void* long_block = SideAllocate(kEarlySideBytes);
  const bool side = IsSide(theirs);
  process.reserved = true;
  ASSERT_NE(block, nullptr);
  EXPECT_TRUE(block > early_side_blocks && block < early_side_blocks + kEarlySideBytes);
  EXPECT_EQ(long_block, nullptr);
  EXPECT_FALSE(side);
}

TEST_F(SideHeapTest, WhatIsNoBlockIsIgnored) {
  char* block = static_cast<char*>(SideAllocate(10000));
  SideFree(block + 16);
  EXPECT_EQ(SideUsable(block + 16), 0u);
  SideFree(block);
  SideFree(block);
  int other = 0;
  SideFree(&other);
  EXPECT_FALSE(IsSide(&other));
  EXPECT_EQ(SideAllocate(SIZE_MAX), nullptr);
}

TEST(AddressMapTest, RangesLieInTheReservationAndApart) {
  const Range ranges[] = {kControl, kSpool, kArena, kSideHeap};
  uint64_t end = kReserved.begin;
  for (const Range& range : ranges) {
    EXPECT_GE(range.begin, end);
    end = range.begin + range.bytes;
  }
  EXPECT_LE(end, kReserved.begin + kReserved.bytes);
}

}  // namespace
}  // namespace reprise::interpose

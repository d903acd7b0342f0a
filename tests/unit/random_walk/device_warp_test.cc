// The device's side of the algorithms without a device: DeviceWarp on 32 fibers does exactly what
// HostWarp does, and all lanes meet at every warp-wide intrinsic.
#include <gtest/gtest.h>

#include <random>
#include <vector>

// What a CUDA compiler knows comes first.
// clang-format off
#include "tests/unit/random_walk/cuda_on_host.h"
#include "random_walk/device_thread.cuh"
// clang-format on
#include "random_walk/page_pool.h"

namespace reprise::random_walk {
namespace {

constexpr uint32_t kPages = 3001;

template <class Word>
void Occupy(const PagePool<Word>& pool, unsigned percent) {
  std::mt19937 random(3);
  for (uint32_t page = 0; page < kPages; ++page) {
    if (random() % 100 < percent)
      pool.view().used[page / kWordBits<Word>] |= Word{1} << page % kWordBits<Word>;
  }
}
template <class Word>
std::vector<Word> Bitmap(const PagePool<Word>& pool) {
  return {pool.view().used, pool.view().used + pool.view().words};
}

template <Algorithm kChosen, class ChosenWord>
struct Variant {
  static constexpr Algorithm kAlgorithm = kChosen;
  using Word = ChosenWord;
};
template <class V>
class DevicePagesTest : public testing::Test {};
using Variants =
    testing::Types<Variant<Algorithm::kRandomWalk, uint32_t>,
                   Variant<Algorithm::kRandomWalk, uint64_t>, Variant<Algorithm::kBitmap, uint32_t>,
                   Variant<Algorithm::kBitmap, uint64_t>, Variant<Algorithm::kCollective, uint32_t>,
                   Variant<Algorithm::kCollective, uint64_t>,
                   Variant<Algorithm::kCollectiveLockFree, uint32_t>,
                   Variant<Algorithm::kCollectiveLockFree, uint64_t>>;
TYPED_TEST_SUITE(DevicePagesTest, Variants);

TYPED_TEST(DevicePagesTest, DeviceAndHostFindTheSamePagesInTheSameSteps) {
  using Word = typename TypeParam::Word;
  const PoolOptions options{.pages = kPages, .page_bytes = 1, .probes = 20, .with_memory = false};
  for (const unsigned percent : {0U, 60U, 97U}) {
    PagePool<Word> here(options), there(options);
    Occupy(here, percent);
    Occupy(there, percent);
    constexpr unsigned kRounds = 20;
    std::vector<LaneMask> wanted(kRounds);
    std::mt19937 random(percent);
    for (LaneMask& mask : wanted) mask = random() & random();

    std::vector<std::array<uint32_t, 32>> pages(kRounds), steps(kRounds);
    cuda_on_host::Warp device;
    ASSERT_TRUE(device.run([&] {
      DeviceThread<Word> mine(there.view(), 17);
      for (unsigned round = 0; round < kRounds; ++round) {
        const unsigned lane = threadIdx.x;
        const uint32_t page =
            mine.template get_page<TypeParam::kAlgorithm>((wanted[round] >> lane & 1) != 0);
        pages[round][lane] = page;
        steps[round][lane] = mine.steps();
        if (page != kNoPage && page % 3 == 0) mine.free_page(page);
        __syncwarp(~0U);
      }
    })) << "the lanes did not meet";

    HostWarp<32> warp(17, 0);
    for (unsigned round = 0; round < kRounds; ++round) {
      PageWalk<HostWarp<32>> walk;
      find_pages<TypeParam::kAlgorithm>(warp, here.view(), wanted[round], walk);
      for (unsigned lane = 0; lane < 32; ++lane) {
        ASSERT_EQ(pages[round][lane], walk.page[lane]) << "round " << round << " lane " << lane;
        ASSERT_EQ(steps[round][lane], walk.steps_of[lane]);
        if (walk.page[lane] != kNoPage && walk.page[lane] % 3 == 0)
          free_page<HostWarp<32>>(here.view(), walk.page[lane]);
      }
    }
    EXPECT_EQ(Bitmap(here), Bitmap(there));
  }
}

template <class Word>
class DeviceRunsTest : public testing::Test {};
using Widths = testing::Types<uint32_t, uint64_t>;
TYPED_TEST_SUITE(DeviceRunsTest, Widths);

TYPED_TEST(DeviceRunsTest, DeviceAndHostFindTheSameRuns) {
  const PoolOptions options{.pages = kPages, .page_bytes = 16, .probes = 20, .debug = true};
  for (const unsigned percent : {0U, 20U}) {
    PagePool<TypeParam> here(options), there(options);
    Occupy(here, percent);
    Occupy(there, percent);
    constexpr unsigned kRounds = 15;
    std::vector<std::array<uint64_t, 32>> bytes(kRounds), offsets(kRounds);
    std::mt19937 random(percent);
    for (auto& sizes : bytes) {
      for (uint64_t& size : sizes) size = random() % (random() % 20 == 0 ? 5000 : 120);
    }
    cuda_on_host::Warp device;
    ASSERT_TRUE(device.run([&] {
      DeviceThread<TypeParam> mine(there.view(), 23);
      for (unsigned round = 0; round < kRounds; ++round) {
        const uint64_t size = bytes[round][threadIdx.x];
        void* block = mine.rw_malloc(size, size % 4 != 0);
        offsets[round][threadIdx.x] = there.view().page_of(block);
        __syncwarp(~0U);
        if (size % 2 != 0) mine.rw_free(block, size);
        __syncwarp(~0U);
      }
    })) << "the lanes did not meet";

    HostWarp<32> warp(23, 0);
    RunWalk<HostWarp<32>> walk;
    for (unsigned round = 0; round < kRounds; ++round) {
      HostWarp<32>::Lanes<uint64_t> sizes;
      LaneMask need = 0;
      for (unsigned lane = 0; lane < 32; ++lane) {
        sizes[lane] = bytes[round][lane];
        need |= LaneMask{sizes[lane] % 4 != 0} << lane;
      }
      const auto block = rw_malloc(warp, here.view(), walk, need, sizes);
      for (unsigned lane = 0; lane < 32; ++lane) {
        ASSERT_EQ(offsets[round][lane], here.view().page_of(block[lane]))
            << "round " << round << " lane " << lane;
        if (sizes[lane] % 2 != 0) rw_free<HostWarp<32>>(here.view(), block[lane], sizes[lane]);
      }
    }
    EXPECT_EQ(Bitmap(here), Bitmap(there));
  }
}

TEST(CudaOnHostTest, LanesThatDoNotMeetAreFound) {
  cuda_on_host::Warp device;
  EXPECT_TRUE(device.run([] { __syncwarp(~0U); }));
  EXPECT_FALSE(device.run([] {
    if (threadIdx.x != 5) __syncwarp(~0U);
  }));
  EXPECT_FALSE(device.run([] {
    if (threadIdx.x == 5) {
      __ballot_sync(~0U, 1);
    } else {
      __syncwarp(~0U);
    }
  }));
}

}  // namespace
}  // namespace reprise::random_walk

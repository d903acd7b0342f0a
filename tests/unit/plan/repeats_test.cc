// Tandem repeats against a comparison of every symbol with every earlier one.
#include "replay/plan/repeats.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <random>
#include <vector>

namespace reprise::replay {
namespace {

using testing::IsEmpty;

std::vector<uint64_t> RandomSymbols(size_t count, uint64_t kinds, std::mt19937_64& random) {
  std::vector<uint64_t> symbols;
  for (size_t i = 0; i < count; ++i) symbols.push_back(random() % kinds * 0x9e3779b97f4a7c15);
  return symbols;
}

void Append(std::vector<uint64_t>& to, const std::vector<uint64_t>& more, size_t times = 1) {
  for (size_t i = 0; i < times; ++i) to.insert(to.end(), more.begin(), more.end());
}

void ExpectValid(const std::vector<uint64_t>& symbols, const std::vector<Repeat>& repeats) {
  for (const Repeat& it : repeats) {
    ASSERT_LE(it.end, symbols.size());
    ASSERT_GE(it.end - it.begin, 2 * it.period);
    for (size_t i = it.begin; i + it.period < it.end; ++i) {
      ASSERT_EQ(symbols[i], symbols[i + it.period]) << i;
    }
    if (it.begin > 0) {
      ASSERT_NE(symbols[it.begin - 1], symbols[it.begin - 1 + it.period]);
    }
    if (it.end < symbols.size()) {
      ASSERT_NE(symbols[it.end], symbols[it.end - it.period]);
    }
  }
}

TEST(RepeatsTest, FindsALoopBetweenPrefixAndSuffix) {
  std::mt19937_64 random(1);
  for (const size_t period : {1, 2, 7, 40, 1'000, 20'000}) {
    for (const size_t times : {2, 3, 50}) {
      if (period * times < 32) continue;
      std::vector<uint64_t> symbols = RandomSymbols(5'000, 1'000'000, random);
      const std::vector<uint64_t> body = RandomSymbols(period, 1'000'000, random);
      Append(symbols, body, times);
      Append(symbols, RandomSymbols(3'000, 1'000'000, random));
      const std::vector<Repeat> repeats = FindRepeats(symbols, 32);
      ASSERT_NO_FATAL_FAILURE(ExpectValid(symbols, repeats));
      ASSERT_FALSE(repeats.empty()) << period << " " << times;
      EXPECT_EQ(repeats[0].period, period);
      EXPECT_EQ(repeats[0].begin, 5'000u);
      EXPECT_EQ(repeats[0].end, 5'000 + period * times);
    }
  }
}

TEST(RepeatsTest, FindsTheOuterLoopFirst) {
  std::mt19937_64 random(2);
  std::vector<uint64_t> epoch = RandomSymbols(300, 1'000, random);
  Append(epoch, RandomSymbols(12, 1'000, random), 100);
  Append(epoch, RandomSymbols(90, 1'000, random));
  std::vector<uint64_t> symbols = RandomSymbols(700, 1'000, random);
  Append(symbols, epoch, 3);
  const std::vector<Repeat> repeats = FindRepeats(symbols, 32);
  ASSERT_NO_FATAL_FAILURE(ExpectValid(symbols, repeats));
  ASSERT_GE(repeats.size(), 4u);
  EXPECT_EQ(repeats[0].period, epoch.size());
  EXPECT_EQ(repeats[1].period, 12u);
}

TEST(RepeatsTest, FindsWhatRepeatsFromOneStartToTheNext) {
  std::mt19937_64 random(4);
  std::vector<uint64_t> symbols;
  std::vector<uint32_t> starts;
  const auto start = [&] { starts.push_back(static_cast<uint32_t>(symbols.size())); };
  for (size_t i = 0; i < 6; ++i) {  // those that come first differ
    start();
    Append(symbols, RandomSymbols(50 + i, 1'000, random));
  }
  const std::vector<uint64_t> body = RandomSymbols(30, 1'000, random);
  for (size_t i = 0; i < 3; ++i) {
    start();
    Append(symbols, body);
  }
  Append(symbols, RandomSymbols(50, 1'000'000, random));
  const std::vector<Repeat> repeats = FindRepeatsFrom(symbols, starts);
  ASSERT_EQ(repeats.size(), 1u);
  EXPECT_EQ(repeats[0].begin, starts[6]);
  EXPECT_EQ(repeats[0].end, starts[6] + 90);
  EXPECT_EQ(repeats[0].period, 30u);
  EXPECT_THAT(FindRepeatsFrom(symbols, {}), IsEmpty());
  const uint32_t same[] = {7, 7, 7};
  EXPECT_THAT(FindRepeatsFrom(symbols, same), IsEmpty());
}

TEST(RepeatsTest, FindsNothingInRandomSymbols) {
  std::mt19937_64 random(3);
  EXPECT_THAT(FindRepeats(RandomSymbols(100'000, 1'000, random), 32), IsEmpty());
  EXPECT_THAT(FindRepeats({}, 32), IsEmpty());
  EXPECT_THAT(FindRepeats(RandomSymbols(1, 2, random), 32), IsEmpty());
}

TEST(RepeatsTest, WhatItFindsIsMaximalInSequencesOfFewKinds) {
  for (uint64_t seed = 1; seed <= 200; ++seed) {
    std::mt19937_64 random(seed);
    std::vector<uint64_t> symbols;
    while (symbols.size() < 2'000) {
      Append(symbols, RandomSymbols(1 + random() % 30, 1 + random() % 4, random),
             1 + random() % 20);
    }
    ASSERT_NO_FATAL_FAILURE(ExpectValid(symbols, FindRepeats(symbols, 8))) << seed;
  }
}

}  // namespace
}  // namespace reprise::replay

// One bitmap word: every operation against a loop over its bits, for both widths.
#include "random_walk/bits.h"

#include <gtest/gtest.h>

#include <random>
#include <vector>

namespace reprise::random_walk {
namespace {

template <class Word>
class BitsTest : public testing::Test {
 protected:
  static constexpr unsigned kBits = kWordBits<Word>;
  // Words of all densities, and the two extremes.
  std::vector<Word> Words() {
    std::vector<Word> words = {0, static_cast<Word>(~Word{0}), 1, Word{1} << (kBits - 1)};
    std::mt19937_64 random(1);
    for (int i = 0; i < 300; ++i) {
      const auto a = static_cast<Word>(random()), b = static_cast<Word>(random());
      words.insert(words.end(), {a, static_cast<Word>(a & b), static_cast<Word>(a | b)});
    }
    return words;
  }
  static bool Bit(Word x, unsigned i) { return i < kBits && (x >> i & 1) != 0; }
};
using Widths = testing::Types<uint32_t, uint64_t>;
TYPED_TEST_SUITE(BitsTest, Widths);

TYPED_TEST(BitsTest, CountsAndPositionsAreThoseOfALoop) {
  for (const TypeParam x : this->Words()) {
    unsigned count = 0;
    for (unsigned i = 0; i < this->kBits; ++i) {
      if (!this->Bit(x, i)) continue;
      ASSERT_EQ(nth_set_bit(x, count), i) << x;
      if (count == 0) {
        ASSERT_EQ(low_zeros(x), i);
      }
      ++count;
      ASSERT_EQ(lowest_set_bits(x, count), static_cast<TypeParam>(x & low_bits<TypeParam>(i + 1)));
    }
    ASSERT_EQ(count_bits(x), count);
    unsigned above = 0;
    while (above < this->kBits && !this->Bit(x, this->kBits - 1 - above)) ++above;
    ASSERT_EQ(high_zeros(x), above);
    ASSERT_EQ(lowest_set_bits(x, 0), 0);
  }
}

TYPED_TEST(BitsTest, RunStartsAreThoseOfALoop) {
  for (const TypeParam x : this->Words()) {
    for (unsigned n = 1; n <= this->kBits; ++n) {
      TypeParam expected = 0;
      for (unsigned i = 0; i < this->kBits; ++i) {
        bool all = true;
        for (unsigned j = 0; j < n && all; ++j) all = this->Bit(x, i + j);
        if (all) expected |= TypeParam{1} << i;
      }
      ASSERT_EQ(run_starts(x, n), expected) << x << " " << n;
    }
  }
}

TYPED_TEST(BitsTest, ARunIsDividedAmongItsWords) {
  for (const unsigned from : {0U, 1U, 31U, 32U, 63U, 64U, 100U}) {
    for (const unsigned count : {0U, 1U, 31U, 32U, 33U, 64U, 65U, 200U}) {
      for (unsigned word = 0; word < 12; ++word) {
        TypeParam expected = 0;
        for (unsigned i = 0; i < this->kBits; ++i) {
          const unsigned bit = word * this->kBits + i;
          if (bit >= from && bit < from + count) expected |= TypeParam{1} << i;
        }
        ASSERT_EQ(bits_in_word<TypeParam>(from, count, word), expected);
      }
    }
  }
}

TEST(LaneRandomTest, DrawsAreEvenInARangeThatIsNoPowerOf2) {
  constexpr unsigned kRange = 7, kDraws = 70000;
  std::vector<unsigned> seen(kRange);
  LaneRandom random = LaneRandom::seeded(3, 9);
  for (unsigned i = 0; i < kDraws; ++i) ++seen[random.below(kRange)];
  for (const unsigned count : seen) EXPECT_NEAR(count, kDraws / kRange, 400);  // 4 deviations
}

}  // namespace
}  // namespace reprise::random_walk

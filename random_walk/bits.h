// Bit operations on one bitmap word, on the host and on a CUDA device. Bit 0 is the lowest page.
// `Word` is uint32_t or uint64_t.
#ifndef REPRISE_RANDOM_WALK_BITS_H_
#define REPRISE_RANDOM_WALK_BITS_H_

#include <cstdint>

#if defined(__CUDACC__)
// Algorithms run on the device only when nvcc compiles them; helpers run on both sides.
#define REPRISE_LANE __device__
#define REPRISE_ANYWHERE __host__ __device__
#else
#define REPRISE_LANE
#define REPRISE_ANYWHERE
#endif

namespace reprise::random_walk {

using LaneMask = uint32_t;  // bit i: lane i of a warp

template <class Word>
struct WordTraits {
  static_assert(sizeof(Word) == 4 || sizeof(Word) == 8, "a word has 32 or 64 bits");
  static constexpr unsigned kBits = sizeof(Word) * 8;
};
template <class Word>
inline constexpr unsigned kWordBits = WordTraits<Word>::kBits;

REPRISE_ANYWHERE inline unsigned count_bits(uint64_t x) {
#if defined(__CUDA_ARCH__)
  return static_cast<unsigned>(__popcll(x));
#else
  return static_cast<unsigned>(__builtin_popcountll(x));
#endif
}
REPRISE_ANYWHERE inline unsigned count_bits(uint32_t x) {
#if defined(__CUDA_ARCH__)
  return static_cast<unsigned>(__popc(x));
#else
  return static_cast<unsigned>(__builtin_popcount(x));
#endif
}

// Number of clear bits below the lowest set bit; all bits of the word when x is 0.
REPRISE_ANYWHERE inline unsigned low_zeros(uint64_t x) {
#if defined(__CUDA_ARCH__)
  return x == 0 ? 64 : static_cast<unsigned>(__ffsll(static_cast<long long>(x)) - 1);
#else
  return x == 0 ? 64 : static_cast<unsigned>(__builtin_ctzll(x));
#endif
}
REPRISE_ANYWHERE inline unsigned low_zeros(uint32_t x) {
#if defined(__CUDA_ARCH__)
  return x == 0 ? 32 : static_cast<unsigned>(__ffs(static_cast<int>(x)) - 1);
#else
  return x == 0 ? 32 : static_cast<unsigned>(__builtin_ctz(x));
#endif
}

// Number of clear bits above the highest set bit; all bits of the word when x is 0.
REPRISE_ANYWHERE inline unsigned high_zeros(uint64_t x) {
#if defined(__CUDA_ARCH__)
  return static_cast<unsigned>(__clzll(static_cast<long long>(x)));
#else
  return x == 0 ? 64 : static_cast<unsigned>(__builtin_clzll(x));
#endif
}
REPRISE_ANYWHERE inline unsigned high_zeros(uint32_t x) {
#if defined(__CUDA_ARCH__)
  return static_cast<unsigned>(__clz(static_cast<int>(x)));
#else
  return x == 0 ? 32 : static_cast<unsigned>(__builtin_clz(x));
#endif
}

// The lowest `count` bits set. `count` may be the width of the word.
template <class Word>
REPRISE_ANYWHERE constexpr Word low_bits(unsigned count) {
  return count >= kWordBits<Word> ? static_cast<Word>(~Word{0})
                                  : static_cast<Word>((Word{1} << count) - 1);
}

// Position of the set bit number `k` (from 0). x must have more than k set bits. A binary search
// over population counts (the paper's Algorithm 4).
template <class Word>
REPRISE_ANYWHERE inline unsigned nth_set_bit(Word x, unsigned k) {
  unsigned position = 0;
  for (unsigned half = kWordBits<Word> / 2; half > 0; half /= 2) {
    const unsigned below = count_bits(static_cast<Word>(x & low_bits<Word>(half)));
    if (k >= below) {
      k -= below;
      position += half;
      x = static_cast<Word>(x >> half);
    }
  }
  return position;
}

// The `count` lowest set bits of x, all of them when there are fewer.
template <class Word>
REPRISE_ANYWHERE inline Word lowest_set_bits(Word x, unsigned count) {
  if (count == 0) return 0;
  if (count >= count_bits(x)) return x;
  return static_cast<Word>(x & low_bits<Word>(nth_set_bit(x, count - 1) + 1));
}

// Bit i is set where bits i to i + n - 1 of x are all set. 1 <= n <= width of the word.
template <class Word>
REPRISE_ANYWHERE inline Word run_starts(Word x, unsigned n) {
  unsigned length = 1;  // bit i tells of a run of this length
  while (length < n) {
    const unsigned shift = length < n - length ? length : n - length;
    x = static_cast<Word>(x & (x >> shift));
    length += shift;
  }
  return x;
}

// The part of bits [from, from + count) that lies in word number `word`, as a mask of that word.
template <class Word>
REPRISE_ANYWHERE inline Word bits_in_word(uint64_t from, uint64_t count, uint64_t word) {
  const uint64_t begin = word * kWordBits<Word>, end = begin + kWordBits<Word>;
  const uint64_t first = from > begin ? from : begin;
  const uint64_t last = from + count < end ? from + count : end;
  if (first >= last) return 0;
  return static_cast<Word>(low_bits<Word>(static_cast<unsigned>(last - first)) << (first - begin));
}

// A bijective mixer of 32 bits (Wellons' lowbias32).
REPRISE_ANYWHERE inline uint32_t mix_bits(uint32_t x) {
  x = (x ^ (x >> 16)) * 0x7feb352dU;
  x = (x ^ (x >> 15)) * 0x846ca68bU;
  return x ^ (x >> 16);
}

// A generator of one lane: 32 random bits a call from a PCG (XSH RR) with 64 bits of state.
struct LaneRandom {
  uint64_t state = 0;

  REPRISE_ANYWHERE static LaneRandom seeded(uint64_t seed, uint64_t lane) {
    const uint32_t low =
        mix_bits(static_cast<uint32_t>(seed) ^ mix_bits(static_cast<uint32_t>(lane)));
    const uint32_t high = mix_bits(static_cast<uint32_t>(seed >> 32) + low + 0x9e3779b9U +
                                   static_cast<uint32_t>(lane >> 32));
    LaneRandom random{(uint64_t{high} << 32) | low};
    random.next();
    return random;
  }
  REPRISE_ANYWHERE uint32_t next() {
    const uint64_t old = state;
    state = old * 6364136223846793005ULL + 1442695040888963407ULL;
    const uint32_t bits = static_cast<uint32_t>(((old >> 18) ^ old) >> 27);
    const unsigned turn = static_cast<unsigned>(old >> 59);
    return (bits >> turn) | (bits << ((32 - turn) & 31));
  }
  // In [0, bound).
  REPRISE_ANYWHERE uint32_t below(uint32_t bound) {
    return static_cast<uint32_t>((uint64_t{next()} * bound) >> 32);
  }
};

}  // namespace reprise::random_walk

#endif  // REPRISE_RANDOM_WALK_BITS_H_

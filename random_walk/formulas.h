// Steps until a page is found, as mathematics predicts them. T pages of which A are free, N
// requests at once, words of w bits. TAS: mean steps of a thread; WAS: mean over the warps of the
// most steps in a warp. Expected: 1 <= N <= A <= T, and T far above w.
#ifndef REPRISE_RANDOM_WALK_FORMULAS_H_
#define REPRISE_RANDOM_WALK_FORMULAS_H_

#include <algorithm>
#include <cmath>
#include <vector>

namespace reprise::random_walk {

// A queue serves one request after another.
inline double queue_tas(double n) { return (n + 1) / 2; }
inline double queue_was(double n) { return n < 32 ? n : (n + 32) / 2; }

// RW, exact: the probe for page j succeeds with probability (A - j) / T, whoever makes it.
inline double random_walk_tas(double t, double a, double n) {
  double sum = 0;
  for (double j = 0; j < n; ++j) sum += t / (a - j);
  return sum / n;
}

// RW-BM as the paper has it: taken pages are spread evenly over the words at all times.
inline double bitmap_tas_paper(double t, double a, double n, double w) {
  double sum = 0;
  for (double j = 0; j < n; ++j) sum += 1 / (1 - std::pow((t - a + j) / t, w));
  return sum / n;
}

// The state of the words after `probes` probes per word. A probe takes one page of a random word,
// whether 1 page of it is free or w: so words become full earlier than by even spreading. A word
// with b free pages at first has max(0, b - hits) then; b is binomial, hits is Poisson.
struct BitmapWords {
  double taken = 0;  // mean pages taken per word
  double full = 0;   // share of full words
};
inline BitmapWords bitmap_words(double free_share, unsigned w, double probes) {
  std::vector<double> binomial(w + 1), at_most(w + 1);  // P(b = k); P(hits <= k)
  double hits = std::exp(-probes), sum = 0;
  for (unsigned k = 0; k <= w; ++k) {
    const double choose = std::lgamma(w + 1.0) - std::lgamma(k + 1.0) - std::lgamma(w - k + 1.0);
    binomial[k] =
        free_share >= 1
            ? (k == w ? 1.0 : 0.0)
            : std::exp(choose + k * std::log(free_share) + (w - k) * std::log1p(-free_share));
    sum += hits;
    at_most[k] = std::min(sum, 1.0);
    hits *= probes / (k + 1);
  }
  BitmapWords words;
  for (unsigned b = 0; b <= w; ++b) {
    double taken = 0;  // E[min(b, hits)] = sum over k < b of P(hits > k)
    for (unsigned k = 0; k < b; ++k) taken += 1 - at_most[k];
    words.taken += binomial[b] * taken;
    words.full += binomial[b] * (b == 0 ? 1 : 1 - at_most[b - 1]);  // hits >= b
  }
  return words;
}

// Probes per word until n pages of t are taken.
inline double bitmap_probes(double t, double a, double n, unsigned w) {
  double low = 0, high = 1;
  while (bitmap_words(a / t, w, high).taken < n * w / t && high < 1e9) high *= 2;
  for (int turn = 0; turn < 100; ++turn) {
    const double middle = (low + high) / 2;
    (bitmap_words(a / t, w, middle).taken < n * w / t ? low : high) = middle;
  }
  return high;
}

// RW-BM, with the state of the words followed: probes of all threads, divided by the threads.
inline double bitmap_tas(double t, double a, double n, unsigned w) {
  return bitmap_probes(t, a, n, w) * t / w / n;
}

// The mean of the longest of 32 searches whose probes fail with probability q each.
inline double longest_of_warp(double q) {
  double sum = 0;
  for (double power = 1; power > 1e-12; power *= q) {
    sum += 1 - std::pow(1 - power, 32);
    if (q >= 1) return INFINITY;
  }
  return sum;
}

// Upper bounds of WAS: q is the share of failing probes when all n pages are taken.
inline double random_walk_was_bound(double t, double a, double n) {
  return longest_of_warp(1 - (a - n) / t);
}
inline double bitmap_was_bound_paper(double t, double a, double n, double w) {
  return longest_of_warp(std::pow((t - a + n) / t, w));
}
inline double bitmap_was_bound(double t, double a, double n, unsigned w) {
  return longest_of_warp(bitmap_words(a / t, w, bitmap_probes(t, a, n, w)).full);
}

}  // namespace reprise::random_walk

#endif  // REPRISE_RANDOM_WALK_FORMULAS_H_

// How much of a test runs under sanitizers, where everything takes 5 to 20 times as long. The
// Release build runs all of it.
#ifndef REPRISE_TESTS_UNIT_EFFORT_H_
#define REPRISE_TESTS_UNIT_EFFORT_H_

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
#define REPRISE_SANITIZED 1
#elif defined(__has_feature)
#if __has_feature(address_sanitizer) || __has_feature(thread_sanitizer)
#define REPRISE_SANITIZED 1
#endif
#endif
#ifndef REPRISE_SANITIZED
#define REPRISE_SANITIZED 0
#endif

namespace reprise {

// `rounds` of a loop; 1/8 of them under sanitizers.
template <typename Number>
constexpr Number Rounds(Number rounds) {
  return REPRISE_SANITIZED && rounds >= 8 ? rounds / 8 : rounds;
}

}  // namespace reprise

#endif  // REPRISE_TESTS_UNIT_EFFORT_H_

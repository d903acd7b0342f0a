#!/usr/bin/env bash
# Builds and tests: scripts/test.sh [--quick|--long] [CTEST-ARGUMENT…], e.g. scripts/test.sh -R planner
#   (nothing)  the Release build with its end-to-end tests; the unit tests and fuzzers' corpora under
#              the address and undefined-behaviour sanitizers, with some seconds of fuzzing
#   --quick    the Release build, all its unit tests with all their random instances (the sanitizers
#              get an eighth) and a few end-to-end cases; no soak tests, no fuzzing
#   --long     as without, and for hours: soak tests, the thread sanitizer over all unit tests, fuzzing,
#              reprise built under reprise, clang-tidy
# The last lines are CTest's summary over all of them.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
scripts/setup.sh

kind=
case ${1-} in --quick | --long) kind=${1#--} && shift ;; esac
jobs=$(nproc)
tests=$((jobs + 1))  # some of them wait
directories=("$PWD/build/release")

# What the sanitized build tests as well is not built twice, nor are kernels that no device runs.
elsewhere=ON cuda=OFF
if [[ $kind ]]; then elsewhere=OFF; fi
if [[ $kind == long ]]; then cuda=ON; fi
cmake --preset release -DREPRISE_WERROR=ON -DREPRISE_SANITIZED_ELSEWHERE="$elsewhere" \
  -DREPRISE_CUDA="$cuda" > /dev/null
if [[ $kind == quick ]]; then
  cmake --build build/release -j "$jobs" --target quick unit_tests
  exec ctest --test-dir build/release --output-on-failure -j "$tests" -L 'unit|style|quick' "$@"
fi
cmake --build build/release -j "$jobs"

# clang-tidy reports what is in the file it compiles, so --long compiles each file alone.
sanitize_command=OFF unity=ON
if [[ $kind == long ]]; then sanitize_command=ON unity=OFF; fi
cmake --preset dev -DREPRISE_WERROR=ON -DREPRISE_SANITIZE_COMMAND="$sanitize_command" \
  -DREPRISE_UNITY="$unity" > /dev/null
cmake --build build/dev -j "$jobs" --target tests/unit/all tests/fuzz/all
directories+=("$PWD/build/dev/tests/unit" "$PWD/build/dev/tests/fuzz")
if [[ $kind == long ]]; then
  export REPRISE_LONG_TESTS=${REPRISE_LONG_TESTS:-300}
  cmake --preset tsan -DREPRISE_WERROR=ON > /dev/null
  cmake --build build/tsan -j "$jobs" --target tests/unit/all
  directories+=("$PWD/build/tsan/tests/unit")
fi

# One test directory over all builds, so that one summary covers them.
suite=build/suite
mkdir -p "$suite"
{
  printf 'subdirs('
  printf ' "%s"' "${directories[@]}"
  printf ')\n'
  seconds=$([[ $kind == long ]] && echo 3600 || echo 3)
  for source in tests/fuzz/*_fuzz.cc; do
    name=$(basename "$source" .cc)
    echo "add_test($name \"$PWD/scripts/fuzz.sh\" --one $seconds ${name%_fuzz})"
    echo "set_tests_properties($name PROPERTIES LABELS fuzz TIMEOUT $((seconds + 300)))"
  done
  if [[ $kind == long ]]; then
    echo "add_test(self_host \"$PWD/workloads/bench/self_host.py\" \"$PWD/build/release\")"
    echo "add_test(arena_soak_long \"$PWD/build/release/bin/arena_soak\" --operations 1000000000)"
    echo "add_test(clang_tidy run-clang-tidy -quiet -p \"$PWD/build/dev\")"
    echo 'set_tests_properties(self_host arena_soak_long clang_tidy PROPERTIES TIMEOUT 14400)'
  fi
} > "$suite/CTestTestfile.cmake"

ctest --test-dir "$suite" --output-on-failure -j "$tests" "$@"

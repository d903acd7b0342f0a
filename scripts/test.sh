#!/usr/bin/env bash
# Builds everything and runs every test: the Release build with all its tests, the unit tests again
# under the address and undefined-behaviour sanitizers, and a minute of fuzzing. The last lines are
# CTest's summary over all of them. Arguments go to ctest, e.g. scripts/test.sh -R planner
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
scripts/setup.sh

fuzz_seconds=${REPRISE_FUZZ_SECONDS:-60}
jobs=$(nproc)

cmake --preset release -DREPRISE_WERROR=ON > /dev/null
cmake --build build/release -j "$jobs"
cmake --preset dev -DREPRISE_WERROR=ON > /dev/null
cmake --build build/dev -j "$jobs" --target tests/unit/all tests/fuzz/all

# One test directory over the two builds, so that one summary covers them.
suite=build/suite
mkdir -p "$suite"
{
  echo "subdirs(\"$PWD/build/release\" \"$PWD/build/dev/tests/unit\")"
  shopt -s nullglob
  fuzzers=(build/dev/bin/*fuzz*)
  for fuzzer in "${fuzzers[@]}"; do
    name=$(basename "$fuzzer")
    mkdir -p "$suite/$name"
    seeds=tests/fuzz/corpus/${name%_fuzz}
    if [[ -d $seeds ]]; then seeds="\"$PWD/$seeds\""; else seeds=; fi
    cat << CTEST
add_test($name "$PWD/$fuzzer" -max_total_time=$((fuzz_seconds / ${#fuzzers[@]})) -timeout=10
         -rss_limit_mb=1024 -print_final_stats=1 "$PWD/$suite/$name" $seeds)
set_tests_properties($name PROPERTIES WORKING_DIRECTORY "$PWD/$suite" LABELS fuzz TIMEOUT 300)
CTEST
  done
} > "$suite/CTestTestfile.cmake"

ctest --test-dir "$suite" --output-on-failure -j "$jobs" "$@"

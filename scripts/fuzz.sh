#!/bin/sh
# Fuzzes the readers: scripts/fuzz.sh SECONDS [TARGET…]. Each target (all of tests/fuzz, when none is
# named) runs for SECONDS, as many at a time as JOBS says (1), with 1 GiB of memory and 10 s per
# input at most. New inputs stay in build/fuzz/inputs/TARGET, an input that fails in
# build/fuzz/failures/TARGET. Exit status 1 when one failed. Needs clang; builds the preset `dev`.
set -eu
cd "$(dirname "$0")/.."

if [ "${1-}" = --one ]; then
  seconds=$2 name=$3
  inputs=build/fuzz/inputs/$name
  failures=build/fuzz/failures/$name
  log=build/fuzz/$name.log
  mkdir -p "$inputs" "$failures"
  if build/dev/bin/"${name}"_fuzz -max_total_time="$seconds" -rss_limit_mb=1024 -timeout=10 \
      -max_len=65536 -artifact_prefix="$failures/" -print_final_stats=1 \
      "$inputs" tests/fuzz/corpus/"$name" >"$log" 2>&1; then
    echo "$name: nothing found in $(sed -n 's/^stat::number_of_executed_units: *//p' "$log") inputs"
    exit 0
  fi
  echo "$name: FAILED, see $log and $failures"
  exit 1
fi

seconds=${1-}
case $seconds in
  '' | *[!0-9]*)
    echo "usage: scripts/fuzz.sh SECONDS [TARGET...]" >&2
    exit 2
    ;;
esac
shift
if [ $# -eq 0 ]; then
  for source in tests/fuzz/*_fuzz.cc; do
    name=${source##*/}
    set -- "$@" "${name%_fuzz.cc}"
  done
fi
[ -f build/dev/CMakeCache.txt ] || cmake --preset dev
printf '%s_fuzz\n' "$@" | xargs cmake --build build/dev -j "$(nproc)" --target
# xargs ends with 123 when one of them failed.
printf '%s\n' "$@" | xargs -n 1 -P "${JOBS:-1}" scripts/fuzz.sh --one "$seconds" || exit 1

#!/usr/bin/env bash
# Which lines the tests run: scripts/coverage.sh [CTEST-ARGUMENT…], default: -L 'unit|soak|fuzz'
# Prints a line per room, and the total; the report by file is build/coverage/report.txt. What runs
# inside of a recorded or replayed program is counted where unit tests run it, not in the program.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
(($#)) || set -- -L 'unit|soak|fuzz'
command -v llvm-profdata > /dev/null || { echo "coverage: apt-get install llvm" >&2; exit 4; }

build=$PWD/build/coverage
cmake --preset coverage > /dev/null
cmake --build "$build" -j "$(nproc)"
rm -rf "$build/profiles"
LLVM_PROFILE_FILE="$build/profiles/%8m.profraw" \
  ctest --test-dir "$build" -j "$(nproc)" --output-on-failure "$@"

llvm-profdata merge -sparse "$build"/profiles/*.profraw -o "$build/all.profdata"
objects=()
for binary in "$build"/bin/* "$build"/lib/*.so; do
  if readelf -SW "$binary" 2> /dev/null | grep -q __llvm_covmap; then objects+=(-object "$binary"); fi
done
llvm-cov report "${objects[@]}" -instr-profile "$build/all.profdata" \
  -ignore-filename-regex '^/usr/|/tests/|/workloads/|/build/' > "$build/report.txt" 2> /dev/null
# Of each file: its name, and as columns 8 and 9 its lines and those that were not run.
awk '$1 == "TOTAL" || $1 ~ /\.(cc|h)$/ {
       room = $1 == "TOTAL" ? "all" : substr($1, 1, index($1, "/") - 1)
       lines[room] += $8; missed[room] += $9
     }
     END { for (room in lines) printf "%-12s %6d lines, %5.1f %% run\n", room, lines[room],
           100 * (1 - missed[room] / lines[room]) }' "$build/report.txt" | sort

#!/usr/bin/env bash
# The main job on a real program: record LevelDB, plan its memory, check the plan, run the same
# program again from the plan, and compare with the allocators of this machine. Leaves every result
# as JSON in build/demo/. Under five minutes on two cores, most of it the build. Arguments go to
# leveldb_bench, e.g. scripts/demo.sh --threads 2
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
scripts/setup.sh

# Shows a command, then runs it. Standard output goes to the file that is named first.
step() {
  local output=$1
  shift
  printf '\n$ %s > %s\n' "$*" "$output"
  "$@" > "$output"
}

say() { printf '\n== %s\n' "$*"; }

say 'Build (about two minutes; nothing to do the second time)'
cmake --preset release > /dev/null
cmake --build build/release -j "$(nproc)" \
  --target reprise_command reprise_preload reprise_player leveldb_bench

reprise=build/release/bin/reprise
workload=(build/release/bin/leveldb_bench "$@")
out=build/demo
rm -rf "$out"
mkdir -p "$out"

say 'LevelDB as it is'
step $out/plain.txt /usr/bin/time -o $out/plain.kib -f %M "${workload[@]}"
echo "{\"peak_rss\": $(($(< $out/plain.kib) * 1024))}" > $out/plain.json
rm $out/plain.kib

say 'Record: the same program, every allocation written down'
step $out/recorded.txt $reprise record -o $out/recording -- "${workload[@]}"
step $out/info.json $reprise info $out/recording --json

say 'Plan: where everything should have gone'
step $out/plan.json $reprise plan $out/recording -o $out/plan --json
step $out/check.json $reprise check $out/recording $out/plan --json

say 'Replay: the same program again, from one arena'
step $out/replayed.txt $reprise replay $out/plan --stats $out/replay.json -- "${workload[@]}"
cmp $out/plain.txt $out/recorded.txt
cmp $out/plain.txt $out/replayed.txt
echo 'The three runs printed the same.'

say 'Compare: the recording under each allocator, and under the plan'
step $out/compare.json $reprise compare $out/recording --plan $out/plan --json

say 'Result'
python3 scripts/demo_table.py $out
printf '\n  All of it as JSON: %s/*.json\n' $out

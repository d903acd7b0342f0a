#!/usr/bin/env bash
# All device checks and measurements of random_walk, in at most 4 minutes. Needs nvcc, a C++ compiler
# and python3, and none of CMake or its packages.
#   workloads/bench/device.sh [OUTPUT-DIRECTORY]     default: docs/benchmarks
# Writes random_walk_device.json and plots there, and what each step printed (device_*.jsonl). A step
# that fails or takes too long loses nothing of the others. Exit status: 0; 1 if a check found errors;
# 77 without nvcc or without a device.
set -uo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/../.." || exit 1
output=${1:-docs/benchmarks}
mkdir -p "$output"
output=$(cd "$output" && pwd)
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT
export PATH=$PATH:/usr/local/cuda/bin

command -v nvcc > /dev/null || { echo "device.sh: no nvcc" >&2; exit 77; }

# The device's own architecture; the others are for CMake.
capability=$(nvidia-smi --query-gpu=compute_cap --format=csv,noheader 2> /dev/null | head -1 | tr -d '. ')
architecture=sm_${capability:-90}

compile() {  # NAME OPTION…: all files at once, each by a compiler of its own
  local name=$1 file pids=() good=0
  shift
  for file in workloads/bench/*.cu; do
    timeout 120 nvcc -std=c++17 -O3 -arch="$architecture" "$@" -I. -c "$file" \
      -o "$scratch/$name.$(basename "$file").o" &
    pids+=($!)
  done
  for file in "${pids[@]}"; do wait "$file" || good=1; done
  ((good == 0)) && timeout 60 nvcc -arch="$architecture" "$scratch/$name".*.o -o "$scratch/$name"
}

status=0
step() {  # NAME SECONDS COMMAND…: its lines go to device_NAME.jsonl, with how it ended
  local name=$1 seconds=$2 began=$SECONDS code
  shift 2
  timeout --kill-after=2 "$seconds" "$@" > "$output/device_$name.jsonl" 2> "$scratch/$name.err"
  code=$?
  printf '{"kind": "step", "step": "%s", "exit": %d, "seconds": %d, "limit": %d}\n' \
    "$name" "$code" $((SECONDS - began)) "$seconds" | tee -a "$output/device_$name.jsonl"
  if ((code != 0)); then
    tail -5 "$scratch/$name.err" >&2
    status=1
  fi
  return "$code"
}

began=$SECONDS
compile bench || { echo "device.sh: the kernels do not compile" >&2; exit 1; }
echo "compiled for $architecture in $((SECONDS - began)) s"
bench=$scratch/bench

step check 30 "$bench" check
if (($? == 77)); then
  echo "device.sh: no CUDA device" >&2
  rm -f "$output"/device_check.jsonl
  exit 77
fi
step pages 50 "$bench" pages 40
step runs 60 "$bench" runs 40
step utilisation 20 "$bench" utilisation 12
step join 35 "$bench" join 25

# Under compute-sanitizer: an error there is exit status 9.
sanitizer=$(command -v compute-sanitizer || find /opt/nvidia -name compute-sanitizer -type f -print -quit 2> /dev/null)
for tool in memcheck initcheck synccheck; do
  ((SECONDS - began < 205)) || break
  [[ -n $sanitizer ]] || { echo '{"kind": "step", "step": "compute-sanitizer", "exit": 127}'; break; }
  step "$tool" 12 "$sanitizer" --tool "$tool" --error-exitcode 9 "$bench" check
done

# One JSON file of all that was printed, tables and plots.
if timeout 20 python3 workloads/bench/bench_random_walk --from "$output" --output "$output" \
    > "$output/random_walk_device.md"; then
  rm -f "$output"/device_*.jsonl
fi
echo "took $((SECONDS - began)) s; results in $output"
exit "$status"

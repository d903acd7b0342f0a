#!/usr/bin/env bash
# Installs a build into a prefix of its own, moves that, and uses it as a stranger would: a program
# built with find_package(reprise), and the command, which must find its library and its player.
#   install_test.sh BUILD-DIRECTORY
set -euo pipefail

build=$(cd "$1" && pwd)
consumer=$(cd "$(dirname "${BASH_SOURCE[0]}")/install_consumer" && pwd)
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT

cmake --install "$build" --prefix "$scratch/first" > /dev/null
prefix="$scratch/a prefix"
mv "$scratch/first" "$prefix"

# What the document shows is what is built here.
document=$consumer/../../../docs/reference/library.md
awk '/^```cpp$/ {block = ""; inside = 1; next}
     /^```$/ {if (inside && block ~ /int main/) printf "%s", block; inside = 0}
     inside {block = block $0 "\n"}' "$document" | cmp - "$consumer/main.cc"
awk '/^```cmake$/ {inside = 1; next} /^```$/ {inside = 0} inside' "$document" |
    cmp - "$consumer/CMakeLists.txt"

generator=$(sed -n 's/^CMAKE_GENERATOR:INTERNAL=//p' "$build/CMakeCache.txt")  # the one that is there
cmake -G "$generator" -S "$consumer" -B "$scratch/consumer" -DCMAKE_PREFIX_PATH="$prefix" > /dev/null
cmake --build "$scratch/consumer"
[[ $("$scratch/consumer/consumer") == 'makespan 96 of 96' ]]
cmake -G "$generator" -S "$consumer/pages" -B "$scratch/pages" -DCMAKE_PREFIX_PATH="$prefix" > /dev/null
cmake --build "$scratch/pages"
[[ $("$scratch/pages/pages") == 'free 1024 of 1024' ]]

reprise=$prefix/bin/reprise
"$reprise" --version
"$reprise" record -o "$scratch/recording" -- /bin/ls / > "$scratch/recorded"
/bin/ls / > "$scratch/plain"
cmp "$scratch/plain" "$scratch/recorded"
"$reprise" compare "$scratch/recording" --allocators glibc --json > "$scratch/compare.json"
python3 -c '
import json, sys
comparison = json.load(open(sys.argv[1]))
assert comparison["max_load"] > 0 and len(comparison["images"]) == 1, comparison
result = comparison["results"][0]
assert result["allocator"] == "glibc" and result["operations"] > 0, result
' "$scratch/compare.json"

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
# Marks, in C without a library, and in Python.
cat > "$scratch/marks.c" << 'END'
#include <reprise/marks.h>
#include <stdlib.h>
int main(void) {
  for (int i = 0; i < 3; ++i) {
    reprise_iteration();
    free(malloc(100));
  }
  return 0;
}
END
cat > "$scratch/marks.py" << 'END'
import reprise
for step in range(3):
    with reprise.iteration():
        pass
END
export PYTHONPATH=$prefix/lib/python3/dist-packages PYTHONDONTWRITEBYTECODE=1
marks_of() {
  "$@"  # nothing happens without the preload
  "$reprise" record -o "$scratch/marks" -- "$@" 2> /dev/null
  "$reprise" info "$scratch/marks" --json |
      python3 -c 'import json, sys; print(*(it["marks"] for it in json.load(sys.stdin)["images"][0]["marks"]))'
  rm -r "$scratch/marks"
}
for options in -fPIE\ -pie -fno-pie\ -no-pie; do
  # shellcheck disable=SC2086
  cc -std=c99 -Wall -Wextra -Wpedantic -Werror $options -I"$prefix/include" -o "$scratch/with_marks" "$scratch/marks.c"
  [[ $(marks_of "$scratch/with_marks") == 3 ]]
done
[[ $(marks_of /usr/bin/python3 "$scratch/marks.py") == 3 ]]
[[ $(marks_of /bin/true) == '' ]]

"$reprise" compare "$scratch/recording" --allocators glibc --json > "$scratch/compare.json"
python3 -c '
import json, sys
comparison = json.load(open(sys.argv[1]))
assert comparison["max_load"] > 0 and len(comparison["images"]) == 1, comparison
result = comparison["results"][0]
assert result["allocator"] == "glibc" and result["operations"] > 0, result
' "$scratch/compare.json"

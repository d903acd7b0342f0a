#!/usr/bin/env bash
# Checks the style of what is committed: scripts/check_style.sh format|shell|python. Exit status 1 and
# what is wrong, or 77 when the tool for it is missing (formatting: or of another version than 14,
# which would format otherwise).
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

files() {
  if git rev-parse --git-dir > /dev/null 2>&1; then
    git ls-files -z -- "$@"
  else
    local pattern
    for pattern in "$@"; do find . -path ./build -prune -o -name "$pattern" -print0; done
  fi
}

need() {
  command -v "$1" > /dev/null && return
  echo "skipped: $1 is missing"
  exit 77
}

case ${1-} in
  format)
    need clang-format
    if ! clang-format --version | grep -q 'version 14\.'; then
      echo "skipped: this is not clang-format 14"
      exit 77
    fi
    files '*.h' '*.cc' '*.cuh' '*.cu' | xargs -0 clang-format --dry-run -Werror
    ;;
  shell)
    need shellcheck
    files '*.sh' '.ci/run' | xargs -0 shellcheck
    ;;
  python)
    need pyflakes3
    files '*.py' | xargs -0 pyflakes3
    ;;
  *)
    echo "usage: scripts/check_style.sh format|shell|python" >&2
    exit 2
    ;;
esac

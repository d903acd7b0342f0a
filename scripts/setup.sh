#!/usr/bin/env bash
# Installs what building, testing and the demo need, from Debian 12 or Ubuntu 24.04 packages. Says
# and changes nothing when all of it is there. Uses sudo when not root.
set -euo pipefail

# One line per package; names separated by | are the same thing in different releases.
packages=(
  g++ cmake ninja-build pkg-config binutils dpkg-dev file
  libmimalloc-dev libabsl-dev libspdlog-dev nlohmann-json3-dev libcli11-dev
  libzstd-dev libxxhash-dev libdw-dev libpng-dev zlib1g-dev coinor-libcbc-dev
  libgtest-dev libgmock-dev
  libleveldb-dev libsnappy-dev
  clang clang-format clang-tidy shellcheck pyflakes3
  # The programs that the end-to-end tests record.
  sqlite3 jq xz-utils git python3 redis-server unzip procps time
  # Programs of another C library, and in an emulator.
  musl-tools qemu-user
  # The allocators that are compared.
  libjemalloc2 libjemalloc-dev libgoogle-perftools-dev
  'libtcmalloc-minimal4t64|libtcmalloc-minimal4'
  'libmimalloc2.0|libmimalloc2.1|libmimalloc2.1t64|libmimalloc2.0t64|libmimalloc3'
)
# Fetches the report's chart code while configuring; any version does, however it was installed.
command -v npm > /dev/null || packages+=(npm)
# The report is tested in a browser. Ubuntu has it as a snap only; there those tests are skipped.
# shellcheck source=/dev/null
if [[ $(. /etc/os-release && echo "$ID") == debian ]]; then
  packages+=(chromium chromium-driver python3-selenium fonts-dejavu-core)
fi

installed=$(dpkg-query -W -f '${Package} ${db:Status-Status}\n' | sed -n 's/ installed$//p')

is_installed() {  # NAME|NAME…
  grep -qxF -e "${1//|/$'\n'}" <<< "$installed"
}

missing=()
for package in "${packages[@]}"; do
  is_installed "$package" || missing+=("$package")
done
# libFuzzer and the sanitizers of clang are packaged by clang's version, known only once apt is asked.
clang_runtime=libclang-rt-
grep -qE '^libclang-rt-[0-9]+-dev$' <<< "$installed" || missing+=("$clang_runtime")
((${#missing[@]})) || exit 0

as_root=()
if ((EUID != 0)); then
  as_root=(sudo)
  if ! command -v sudo > /dev/null; then
    echo "setup: not root, and there is no sudo; missing: ${missing[*]}" >&2
    exit 1
  fi
fi

# The first of NAME|NAME… that this release can install.
available() {
  local name
  for name in ${1//|/ }; do
    if [[ $(apt-cache policy "$name" 2> /dev/null) == *'Candidate: '[^\(]* ]]; then
      echo "$name"
      return
    fi
  done
  echo "setup: this release has no package $1" >&2
  return 1
}

echo "setup: installing ${missing[*]}" >&2
"${as_root[@]}" apt-get update -qq
chosen=()
for package in "${missing[@]}"; do
  if [[ $package == "$clang_runtime" ]]; then
    version=$(apt-cache depends clang | sed -n 's/.*Depends: clang-\([0-9]\+\)$/\1/p')
    package=libclang-rt-$version-dev
  fi
  name=$(available "$package")
  chosen+=("$name")
done

# redis-server would be started by its package: a policy that says no, for as long as this takes.
policy=/usr/sbin/policy-rc.d
kept=
restore_policy() {
  "${as_root[@]}" rm -f "$policy"
  if [[ -n $kept ]]; then "${as_root[@]}" mv "$kept" "$policy"; fi
}
if [[ -e $policy ]]; then
  kept=$policy.before-reprise
  "${as_root[@]}" mv "$policy" "$kept"
fi
trap restore_policy EXIT
printf '#!/bin/sh\nexit 101\n' | "${as_root[@]}" tee "$policy" > /dev/null
"${as_root[@]}" chmod 755 "$policy"

"${as_root[@]}" env DEBIAN_FRONTEND=noninteractive \
  apt-get install -y -qq --no-install-recommends "${chosen[@]}" > /dev/null
# Nor at the next boot, when it was not there before.
if ! is_installed redis-server && [[ -d /run/systemd/system ]]; then
  "${as_root[@]}" systemctl disable --quiet redis-server || true
fi

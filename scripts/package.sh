#!/usr/bin/env bash
# Makes the Debian packages reprise and libreprise-dev of a build, in BUILD/packages:
#   scripts/package.sh [BUILD]         build/release unless given
#   scripts/package.sh --test [BUILD]  then installs them into a fresh minimal system of this release
#                                      (root, debootstrap, a mirror) and does the main job there
set -euo pipefail
cd "$(dirname "$0")/.."

test=
if [[ ${1:-} == --test ]]; then
  test=1
  shift
fi
build=${1:-build/release}
[[ -e $build/CPackConfig.cmake ]] || cmake --preset release
(cd "$build" && rm -rf packages && cpack -G DEB -B packages > packages.log) || {
  cat "$build/packages.log" >&2
  exit 1
}
rm -rf "$build/packages/_CPack_Packages"
ls "$build"/packages/*.deb
[[ $test ]] || exit 0

# shellcheck source=/dev/null
suite=$(. /etc/os-release && echo "$VERSION_CODENAME")
root=$(mktemp -d /tmp/reprise-package.XXXXXX)
trap 'rm -rf --one-file-system "$root"' EXIT
debootstrap --variant=minbase "$suite" "$root/system" > "$root/debootstrap.log" || {
  tail -3 "$root/debootstrap.log" >&2
  exit 1
}

mount -t proc proc "$root/system/proc"
trap 'umount "$root/system/proc"; rm -rf --one-file-system "$root"' EXIT
cp "$build"/packages/*.deb "$root/system/root"
chroot "$root/system" /bin/bash -euc '
  export DEBIAN_FRONTEND=noninteractive
  apt-get update -qq
  apt-get install -qq --no-install-recommends /root/*.deb > /dev/null
  cd /tmp
  reprise --version
  reprise record -o rec -- /bin/ls /usr > first.txt
  reprise info rec | grep "max load"
  reprise plan rec -o plan > /dev/null
  reprise check rec plan
  reprise replay plan -- /bin/ls /usr > second.txt
  cmp first.txt second.txt
  reprise compare rec --allocators glibc --plan plan | grep plan
  dpkg -L reprise | grep -c /man1/
  dpkg -L libreprise-dev | grep reprise-config.cmake
'

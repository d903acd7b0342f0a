#!/usr/bin/env bash
# Sets up, builds and tests reprise on another Debian release, in a folder that debootstrap fills:
#   scripts/test_in_chroot.sh [-d FOLDER] [-k] [SUITE] [-- COMMAND…]
# SUITE: a Debian release, default trixie (Debian 13). FOLDER: where the system and the clone lie,
# default build/chroot/SUITE. It is used again when it is there; what is committed is cloned anew each
# time. COMMAND: what runs in the clone instead of `scripts/test.sh`. -k: the build folders of the
# last run are kept, so that only what has changed is built.
# Needs root and debootstrap. The folder's mounts live in a mount namespace of their own and end with
# the script. Exit status: COMMAND's; 2: usage; 4: the system could not be set up.
set -euo pipefail

usage() {
  sed -n '2,/^set/{s/^# \{0,1\}//p}' "${BASH_SOURCE[0]}" | head -n -0 >&2
  exit 2
}

suite=trixie
folder=
keep=
command=(scripts/test.sh)
while (($#)); do
  case $1 in
    -d) folder=${2:?} && shift ;;
    -k) keep=1 ;;
    --) shift && command=("$@") && break ;;
    -*) usage ;;
    *) suite=$1 ;;
  esac
  shift
done

fail() {
  echo "test_in_chroot: $*" >&2
  exit 4
}

source=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
folder=${folder:-$source/build/chroot/$suite}
((EUID == 0)) || fail 'root is needed, for chroot and mount'
command -v debootstrap > /dev/null || fail 'debootstrap is missing (apt-get install debootstrap)'

# The mirror of this machine, and what apt was told about it.
# shellcheck disable=SC2016  # apt's own
mirror=$(apt-get indextargets --format '$(REPO_URI)' 2> /dev/null | grep -m 1 '/debian/\?$' || true)
mirror=${mirror:-http://deb.debian.org/debian}
mkdir -p "$folder"
folder=$(cd "$folder" && pwd)
if [[ ! -e $folder/.complete ]]; then
  echo "test_in_chroot: $suite from $mirror into $folder" >&2
  debootstrap --variant=minbase "$suite" "$folder" "$mirror" > "$folder.log" 2>&1 ||
    fail "debootstrap failed, see $folder.log"
  cp /etc/apt/apt.conf.d/* "$folder/etc/apt/apt.conf.d/" 2> /dev/null || true
  echo "deb $mirror $suite main" > "$folder/etc/apt/sources.list"
  touch "$folder/.complete"
fi
cp /etc/resolv.conf "$folder/etc/resolv.conf" 2> /dev/null || true

clone=$folder/root/reprise
saved=$folder/root/build
if [[ -n $keep && -d $clone/build ]]; then
  rm -rf "$saved"
  mv "$clone/build" "$saved"
fi
rm -rf "$clone"
git clone -q "$source" "$clone"
if [[ -n $keep && -d $saved ]]; then mv "$saved" "$clone/build"; fi

# shellcheck disable=SC2016  # expanded inside
exec unshare --mount bash -euc '
  folder=$1
  shift
  mount -t proc proc "$folder/proc"
  mount --rbind /dev "$folder/dev"
  mount --bind /sys "$folder/sys" || true
  mount -t tmpfs tmpfs "$folder/dev/shm" || true
  exec chroot "$folder" /usr/bin/env -i PATH=/usr/sbin:/usr/bin:/sbin:/bin HOME=/root TERM=dumb LANG=C.UTF-8 \
    DEBIAN_FRONTEND=noninteractive \
    bash -c "cd /root/reprise && exec \"\$@\"" bash "$@"' bash "$folder" "${command[@]}"

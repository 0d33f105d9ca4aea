# shellcheck shell=bash
# Makes clean roots of Debian and Ubuntu; source this file after contrib/setup.sh. Roots
# are made once and kept in ${PERCORE_CACHE:-${XDG_CACHE_HOME:-$HOME/.cache}/percore}/debian;
# remove that folder to get newer packages.
root_cache=${PERCORE_CACHE:-${XDG_CACHE_HOME:-${HOME:?set it, or PERCORE_CACHE}/.cache}/percore}/debian
ubuntu_keyring=/usr/share/keyrings/ubuntu-archive-keyring.gpg

# Prints the sources of a suite, a line each, or nothing if mmdebstrap knows them. The
# keys of Ubuntu are in Debian's package ubuntu-keyring.
sources_of() {
  local suite
  case $1 in
  jammy | noble)
    for suite in "$1" "$1-updates"; do
      echo "deb [signed-by=$ubuntu_keyring] http://archive.ubuntu.com/ubuntu $suite main universe"
    done
    ;;
  esac
}

# make_root NAME SUITE ARCHITECTURES HOOK PACKAGE...: makes a root with these packages,
# unless the cache contains it. HOOK is a command that runs in the new root. The package
# lists remain in the root.
make_root() {
  local name=$1 suite=$2 architectures=$3 hook=$4 list tarball=$root_cache/$1.tar
  local sources=()
  shift 4
  mapfile -t sources < <(sources_of "$suite")
  list=$(printf '%s\n' "$suite" "$architectures" "$hook" "$@")
  (umask 022 && mkdir -p "$root_cache")
  # root unpacks and enters what is there.
  if [[ -n $(find "$root_cache/.." "$root_cache" -maxdepth 0 \
    \( ! -user "$(id -u)" -o -perm /022 \)) ]]; then
    die "others can write to $root_cache; set PERCORE_CACHE to a directory of your own"
  fi
  [[ $(cat "$tarball.made-of" 2>/dev/null) != "$list" ]] || return 0
  if [[ ${#sources[@]} -gt 0 && ! -e $ubuntu_keyring ]]; then
    echo "$ubuntu_keyring is missing: apt-get install ubuntu-keyring" | tee -a "$log" >&2
    return 1
  fi
  # shellcheck disable=SC2016
  quietly "$log" mmdebstrap --mode=root --variant=minbase \
    --architectures="$architectures" --skip=cleanup/apt \
    --aptopt='Acquire::Check-Valid-Until "false"' \
    --include="$(IFS=, && printf '%s' "apt,ca-certificates${*:+,$*}")" --format=tar \
    --customize-hook="chroot \"\$1\" sh -ec '$hook'" \
    "$suite" "$tarball.$$" "${sources[@]}" || {
    rm -f "$tarball.$$"
    return 1
  }
  mv "$tarball.$$" "$tarball"
  printf '%s' "$list" >"$tarball.made-of"
}

# open_root DIRECTORY NAME: unpacks the root NAME from the cache into DIRECTORY.
open_root() {
  rm -rf "$1"
  mkdir -p "$1"
  tar -xf "$root_cache/$2.tar" -C "$1"
}

# in_root DIRECTORY COMMAND: runs a shell command in the root. /proc, /sys and /dev are
# mounted only while the command runs.
in_root() {
  # shellcheck disable=SC2016
  env -i PATH=/usr/sbin:/usr/bin:/sbin:/bin LC_ALL=C.UTF-8 \
    DEBIAN_FRONTEND=noninteractive \
    unshare --mount --propagation private sh -ec '
      mount -t proc proc "$1/proc"
      mount --rbind /sys "$1/sys"
      mount --rbind /dev "$1/dev"
      exec chroot "$1" /bin/sh -c "$2"' sh "$@"
}

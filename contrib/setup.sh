# shellcheck shell=bash
# Code shared by contrib/demo, contrib/check and contrib/debian: installs
# packages, and builds without changing the checkout. Source it under `set -euo pipefail`.

# Debian packages with everything that ./configure looks for, and with the build tools.
# shellcheck disable=SC2034
BUILD_PACKAGES=(gcc libc6-dev make autoconf automake libtool pkg-config perl
  libyajl-dev collectd-core collectd-dev)

die() {
  printf '%s: %s\n' "${0##*/}" "$*" >&2
  exit 1
}

# Runs a command and appends its output to a log. If the command fails, shows the end of
# the log.
quietly() {
  local log=$1
  shift
  "$@" >>"$log" 2>&1 </dev/null && return
  tail -n 40 "$log" >&2
  printf 'failed: %s (the whole log is %s)\n' "$*" "$log" >&2
  return 1
}

# A package may be installed for several architectures.
is_installed() {
  dpkg-query -W -f='${db:Status-Status}\n' "$1" 2>/dev/null | grep -qx installed
}

as_root() { if [[ $(id -u) -eq 0 ]]; then "$@"; else sudo "$@"; fi; }

# Runs apt-get as root, with messages in English, because update_lists reads them.
apt_get() {
  as_root env DEBIAN_FRONTEND=noninteractive LC_ALL=C \
    apt-get -q -y -o DPkg::Lock::Timeout=900 "$@"
}

# Updates the package lists. apt-get waits for dpkg's lock, but not for the lock of the
# lists, which Debian's own timer sometimes holds, so this function waits for that lock
# for up to 5 minutes.
update_lists() {
  local log=$1 output status tries=3 waits=30
  while true; do
    status=0
    output=$(apt_get update 2>&1 </dev/null) || status=$?
    printf '%s\n' "$output" >>"$log"
    [[ $status -ne 0 ]] || return 0
    if [[ $output == *lists/lock* && $waits -gt 0 ]]; then
      [[ $waits -lt 30 ]] ||
        printf 'Another process is updating the package lists; waiting\n'
      waits=$((waits - 1))
      sleep 10
    elif [[ $output != *lists/lock* && $tries -gt 1 ]]; then
      tries=$((tries - 1))
      sleep 3
    else
      tail -n 40 <<<"$output" >&2
      return 1
    fi
  done
}

# Prints the names of missing packages, then installs them.
install_missing() {
  local log=$1 package missing=()
  shift
  command -v dpkg-query >/dev/null ||
    die "cannot install packages: this is not Debian; install what Debian calls: $*"
  for package in "$@"; do
    is_installed "$package" || missing+=("$package")
  done
  [[ ${#missing[@]} -gt 0 ]] || return 0
  [[ $(id -u) -eq 0 ]] || command -v sudo >/dev/null ||
    die "missing packages: only root can install them; run: apt-get install --no-install-recommends ${missing[*]}"
  printf 'Installing with apt-get: %s\n' "${missing[*]}"
  update_lists "$log" || die "apt-get cannot update the package lists"
  quietly "$log" apt_get install --no-install-recommends "${missing[@]}" || {
    # Update the lists and try again, because the mirror may no longer offer the
    # versions that the lists name.
    printf 'Trying again with new package lists\n'
    update_lists "$log" &&
      quietly "$log" apt_get install --no-install-recommends "${missing[@]}"
  } || die "cannot install: ${missing[*]}"
}

# True for the top of a checkout. Git is asked whether it tracks a file there, because a
# tarball may have been unpacked inside a checkout, even a checkout of percore.
is_checkout() {
  git -C "$1" ls-files --error-unmatch configure.ac >/dev/null 2>&1
}

# Copies the files of the project from one folder to another and preserves their
# modification times, so that make rebuilds only what has changed.
copy_source() {
  local from=$1 to=$2
  mkdir -p "$to"
  if is_checkout "$from"; then
    # Copy tracked files and new files that are not ignored, but no deleted files.
    (cd "$from" && git ls-files -z --cached --others --exclude-standard |
      while IFS= read -r -d '' file; do
        [[ ! -e $file && ! -L $file ]] || printf '%s\0' "$file"
      done | tar -cf - --null --no-recursion -T -) | tar -xf - -C "$to"
  else
    tar -cf - -C "$from" --exclude=./build --exclude=./build-{check,debian,demo} \
      --exclude=./config.status --exclude=./Makefile . | tar -xf - -C "$to"
  fi
}

# Prints which of the optional tools that ./configure looks for are installed.
optional_tools() {
  command -v clang bpftool python3 || true
  ls /usr/sbin/bpftool /usr/include/bpf/bpf.h 2>/dev/null || true
  pkg-config --modversion libdpdk 2>/dev/null || true
}

# configure_tree SOURCE BUILD LOG CONFIGURE-OPTION...: configures SOURCE in the folder
# BUILD. Returns 0, or prints why it failed and returns 1.
configure_tree() {
  local source=$1 build=$2 log=$3
  shift 3
  [[ -x $source/configure && -f $source/Makefile.in ]] ||
    quietly "$log" autoreconf -fi "$source" || return
  # Remove a build that was configured with other options or with fewer tools, because
  # its files cannot be used.
  local configured_with
  configured_with=$(printf '%s\n' "$*" && optional_tools)
  [[ $(cat "$build/configured-with" 2>/dev/null) == "$configured_with" ]] ||
    rm -rf "$build"
  mkdir -p "$build"
  if [[ ! -f $build/Makefile ]]; then
    (cd "$build" && quietly "$log" "$source/configure" "$@") || return
    printf '%s' "$configured_with" >"$build/configured-with"
  fi
}

# Configures and builds.
build_tree() {
  configure_tree "$@" || return
  quietly "$3" make -C "$2" -j"$(nproc)"
}

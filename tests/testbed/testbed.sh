# Functions for all guests. The script of each guest sets guest_*, sources this
# file, and boots the guest.
#
#   arm64 [--console] [--shell] [--fetch] [BOOT...]
#
# Run it from the build directory (`make check` does, and sets srcdir). Without BOOT
# it runs the boots that TESTBED_BOOTS names, or all, those marked `long` only with
# PERCORE_TEST_LONG=1. --console shows the guest's output as it appears, --shell starts
# a shell in the guest, --fetch only fetches packages.
#
# The guest's kernel and busybox are Debian's. They are cached in
# ${PERCORE_CACHE:-${XDG_CACHE_HOME:-$HOME/.cache}/percore}/testbed; remove that
# directory to fetch newer versions.
#
# Prints `ok - sentence`, `not ok - sentence`, `ok - sentence # SKIP reason` and a
# plan. Exit status: 0, 1 if anything failed, 77 if everything was skipped.
set -eu -o pipefail

srcdir=$(cd "${srcdir:-$(dirname "$0")/../..}" && pwd)
work=$PWD/testbed.d/${0##*/}
cache=${PERCORE_CACHE:-${XDG_CACHE_HOME:-${HOME:-/tmp}/.cache}/percore}/testbed
console=no shell=no fetch_only=no wanted_boots=${TESTBED_BOOTS-}
passed=0 failed=0 skipped=0 qemu_pid=

# ------------------------------------------------------------------------------
# Results

ok() { passed=$((passed + 1)); echo "ok - $1"; }
not_ok() { failed=$((failed + 1)); echo "not ok - $1"; }

finish() {
  echo "1..$((passed + failed + skipped))"
  echo "# ${0##*/}: $passed passed, $failed failed, $skipped skipped"
  [ "$failed" -eq 0 ] || exit 1
  [ "$passed" -gt 0 ] || [ "$fetch_only" = yes ] || exit 77
  exit 0
}

# Reports why the guest cannot be run, and exits.
skip_all() {
  skipped=$((skipped + 1))
  echo "ok - ${0##*/} guest # SKIP $1"
  finish
}

clean_up() {
  [ -z "$qemu_pid" ] || kill "$qemu_pid" 2>/dev/null || true
}
trap clean_up EXIT
trap 'exit 130' INT
trap 'exit 143' TERM

need() { # command package
  command -v "$1" >/dev/null || skip_all "$1 is missing: apt-get install $2"
}

read_arguments() {
  while [ $# -gt 0 ]; do
    case $1 in
    --console) console=yes ;;
    --shell) console=yes shell=yes ;;
    --fetch) fetch_only=yes ;;
    -*) sed -n '4,/^set -eu/s/^# \{0,1\}//p' "$srcdir/tests/testbed/testbed.sh" >&2
      exit 2 ;;
    *) wanted_boots="$wanted_boots $1" ;;
    esac
    shift
  done
  [ -f config.status ] || {
    echo "${0##*/}: run this from the build directory, after configure" >&2
    exit 2
  }
  [ "${PERCORE_TESTBED:-yes}" != no ] || skip_all "PERCORE_TESTBED=no"
  need apt-get apt
  need dpkg-deb dpkg
  need cpio cpio
}

# ------------------------------------------------------------------------------
# Debian's packages of any architecture, without changing the host's apt and dpkg

apt_state() { # folder
  mkdir -p "$1/lists/partial" "$1/archives/partial"
  : >"$1/status"
  cat >"$1/apt.conf" <<EOF
APT::Architecture "$guest_arch";
APT::Architectures { "$guest_arch"; };
APT::Sandbox::User "";
Dir::State "$1";
Dir::State::lists "$1/lists";
Dir::State::status "$1/status";
Dir::Cache "$1";
Acquire::Languages "none";
Acquire::Retries "2";
EOF
  export APT_CONFIG="$1/apt.conf"
}

# Fetches busybox, and the kernel package that the meta package $guest_kernel requires.
fetch_packages() { # folder
  apt_state "$1/apt"
  apt-get -qq update || return 1
  kernel=$(apt-cache depends "$guest_kernel" |
    sed -n 's/^ *Depends: \(linux-image-[0-9].*\)$/\1/p')
  [ "$(echo "$kernel" | wc -w)" -eq 1 ] || {
    echo "# $guest_kernel depends on '$kernel', not on one kernel"
    return 1
  }
  (cd "$1" && apt-get -qq download "$kernel" busybox-static) || return 1
  ls "$1"/*.deb | sed 's|.*/|# fetched |'
}

unpack_packages() { # folder
  for package in "$1"/*.deb; do
    dpkg-deb -x "$package" "$1/root" || return 1
  done
  cp "$1"/root/boot/vmlinuz-* "$1/vmlinuz"
  cp "$1"/root/bin/busybox "$1/busybox"
  mkdir "$1/modules"
  for module in $guest_modules; do
    find "$1/root/lib/modules" -name "$module.ko" -exec cp {} "$1/modules" \;
    [ -f "$1/modules/$module.ko" ] || {
      echo "# $kernel has no module $module"
      return 1
    }
  done
  (cd "$1" && ls ./*.deb | sed 's|./||') >"$1/packages"
  rm -rf "$1/apt" "$1/root" "$1"/*.deb
}

fetch() {
  kit=$cache/${guest_kit:-$guest_arch}
  if [ ! -f "$kit/packages" ]; then
    mkdir -p "$cache"
    new=$(mktemp -d "$cache/$guest_arch.XXXXXX")
    if ! { fetch_packages "$new" && unpack_packages "$new"; } 2>&1; then
      rm -rf "$new"
      skip_all "Debian's $guest_kernel and busybox-static for $guest_arch" \
        "cannot be fetched"
    fi
    # Another run may have created the directory in the meantime.
    mv -T "$new" "$kit" 2>/dev/null || rm -rf "$new"
  fi
  sed 's/^/# guest: /' "$kit/packages"
  [ "$fetch_only" = no ] || finish
}

# ------------------------------------------------------------------------------
# The guest's files

# Builds the guest's program for a processor that is not this machine's, and sets
# `program`. The makefile builds it for this machine.
build() {
  program=$PWD/tests/testbed/guest
  if [ -z "$guest_host" ]; then
    [ -x "$program" ] || { not_ok "the guest's program is built" && finish; }
    return
  fi
  program=$work/build/tests/testbed/guest
  [ ! -f "$srcdir/config.status" ] ||
    skip_all "the source tree holds a build: configure out of tree instead"
  mkdir -p "$work/build"
  log=$work/build.log
  (
    cd "$work/build"
    # Variables of the outer make must not reach this build.
    unset MAKEFLAGS MFLAGS MAKELEVEL CC CFLAGS LDFLAGS CPPFLAGS APT_CONFIG
    [ -f config.status ] || "$srcdir/configure" "--host=$guest_host" \
      --disable-plugin --disable-tool --disable-tests --disable-shared
    make tests/testbed/guest
  ) >"$log" 2>&1 || {
    tail -20 "$log" | sed 's/^/# build: /'
    not_ok "the guest's program is built for $guest_arch"
    finish
  }
}

pack() {
  root=$work/root
  rm -rf "$root"
  mkdir -p "$root/bin" "$root/dev" "$root/proc" "$root/sys" "$root/modules" \
    "$root/tmp" "$root/run"
  cp "$kit/busybox" "$root/bin/busybox"
  cp "$program" "$root/bin/guest"
  install -m 755 "$srcdir/tests/testbed/init" "$root/init"
  [ -z "$guest_modules" ] || cp "$kit"/modules/*.ko "$root/modules"
  if [ "$(type -t pack_more)" = function ]; then
    pack_more "$root"
  fi
  (cd "$root" && find . | cpio --quiet -o -H newc -R 0:0 | gzip -1) \
    >"$work/initramfs.gz"
}

# ------------------------------------------------------------------------------
# Booting

run_qemu() { # seconds, kernel command line, more for QEMU...
  local limit=$1 line=$2
  shift 2
  timeout --kill-after=5 "$limit" "$guest_qemu" $guest_machine \
    -display none -monitor none -serial stdio -nodefaults -no-reboot \
    -kernel "$kit/vmlinuz" -initrd "$work/initramfs.gz" \
    -append "console=$guest_console quiet panic=-1 testbed_shell=$shell $line" \
    "$@"
}

# Runs the command, for example a boot, only if PERCORE_TEST_LONG is set or boots are named.
long() { # command
  [ -z "$wanted_boots${PERCORE_TEST_LONG-}" ] || "$@"
}

# Runs one boot and reads the results from its console. The boot's name is added to each
# result as a prefix, because two boots may run the same tests.
boot() { # name, seconds, chapters, kernel command line, more for QEMU...
  local name=$1 limit=$2 chapters=$3 line=$4 begun=$SECONDS status=0
  shift 4
  case " $wanted_boots " in
  "  " | *" $name "*) ;;
  *) return 0 ;;
  esac
  local log=$work/$name.console
  line="testbed_chapters=$chapters $line"
  echo "# $name: $line"
  if [ "$shell" = yes ]; then
    run_qemu 3600 "$line" "$@" || true
    return 0
  elif [ "$console" = yes ]; then
    run_qemu "$limit" "$line" "$@" </dev/null 2>&1 | tee "$log" || status=$?
  else
    run_qemu "$limit" "$line" "$@" </dev/null >"$log" 2>&1 &
    qemu_pid=$!
    wait "$qemu_pid" || status=$?
    qemu_pid=
  fi
  judge "$name" "$log" "$status"
  echo "# $name took $((SECONDS - begun)) s"
}

# Boots only if PERCORE_TEST_LONG is set, or if the boot is named.
long() { # function, name, ...
  [ -z "$wanted_boots${PERCORE_TEST_LONG-}" ] || "$@"
}

# Runs a script in the guest, and checks the output on its console with a program on
# this machine.
boot_script() { # name, seconds, script, more for QEMU...
  local name=$1 script=$3 judgement
  boot "$1" "$2" "" "testbed_script=$script.guest" "${@:4}"
  case " $wanted_boots " in
  "  " | *" $name "*) ;;
  *) return 0 ;;
  esac
  [ "$shell" = no ] || return 0
  judgement=$work/$name.judgement
  python3 "$srcdir/tests/testbed/judge_$script.py" "$work/$name.console" \
    >"$judgement" 2>&1 || {
    cat "$judgement"
    not_ok "$name: the guest's output can be judged"
    return 0
  }
  echo "# results: $(grep -c '^\(not \)\?ok - ' "$judgement")" >>"$judgement"
  judge "$name" "$judgement" 0
}

judge() { # name, console, exit status of QEMU
  local name=$1 seen=0 told=none line
  while IFS= read -r line; do
    line=${line%$'\r'}
    case $line in
    "ok - "*" # SKIP "*) skipped=$((skipped + 1)) ;;
    "ok - "*) passed=$((passed + 1)) ;;
    "not ok - "*) failed=$((failed + 1)) ;;
    "# results: "*) told=$((${told/none/0} + ${line##*: })) && continue ;;
    "# "*) echo "#   ${line#\# }" && continue ;;
    *) continue ;;
    esac
    seen=$((seen + 1))
    echo "${line%% - *} - $name: ${line#* - }"
  done <"$2"
  if [ "${told/none/0}" = "$seen" ] && [ "$3" -eq 0 ]; then
    ok "$name: the guest ran to its end and all its results arrived"
    return
  fi
  tail -25 "$2" | tr -d '\r' | sed 's/^/#   console: /'
  [ "$3" -ne 124 ] || echo "#   it was killed because its time was up"
  not_ok "$name: the guest ran to its end and all its results arrived" \
    "($seen seen, $told told, QEMU $3)"
}

# shellcheck shell=bash
# Boots a Debian root; source this file.

# boot ROOT LOG: runs the systemd of the root as process 1 of namespaces of its own,
# without a network, and with devices that are no hardware. Sets `box`, its pid, and
# `booting`, the process whose end ends it. Returns 1 if systemd does not boot here.
boot() {
  # shellcheck disable=SC2016
  unshare --mount --net --propagation private sh -ec '
    mount --bind "$1" "$1"
    mount -t cgroup2 cgroup2 "$1/mnt"
    mkdir -p "$1/mnt/percore-box"
    echo $$ >"$1/mnt/percore-box/cgroup.procs"
    umount "$1/mnt"
    exec unshare --fork --kill-child --pid --cgroup --uts --ipc sh -ec "
      cd \"$1\"
      mount -t proc proc proc
      mount --bind proc/sys proc/sys
      mount -o remount,ro,bind proc/sys
      mount -t sysfs -o ro sysfs sys
      mount -t cgroup2 cgroup2 sys/fs/cgroup
      mount -t bpf bpf sys/fs/bpf
      mount -t tmpfs -o mode=755 tmpfs run
      mount -t tmpfs -o mode=755 tmpfs dev
      for device in null zero full random urandom; do
        touch dev/\$device
        mount --bind /dev/\$device dev/\$device
      done
      ln -s /proc/self/fd dev/fd
      mkdir dev/shm old
      pivot_root . old
      umount -l /old
      rmdir /old
      exec env -i container=percore PATH=/usr/sbin:/usr/bin:/sbin:/bin \
        /lib/systemd/systemd"' sh "$1" >>"$2" 2>&1 </dev/null &
  booting=$!
  for _ in {1..60}; do
    sleep 0.5
    box=$(pgrep -P "$booting" -x systemd) || continue
    case $(in_box 'systemctl is-system-running' 2>>"$2") in
    running | degraded) return 0 ;;
    esac
  done
  end_box
  return 1
}

# Runs a shell command in the booted system.
in_box() {
  timeout 120 nsenter -t "$box" -m -n -p -u -i -C -r -w env -i \
    PATH=/usr/sbin:/usr/bin:/sbin:/bin LC_ALL=C.UTF-8 \
    DEBIAN_FRONTEND=noninteractive sh -c "$1"
}

end_box() {
  kill -KILL "$booting" 2>/dev/null || true
  wait "$booting" 2>/dev/null || true
  unshare --mount --propagation private sh -c '
    mount -t cgroup2 cgroup2 /mnt
    for try in 1 2 3 4 5; do
      find /mnt/percore-box -depth -type d -exec rmdir {} + && break
      sleep 0.2
    done' 2>/dev/null || true
}

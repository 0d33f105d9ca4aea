# shellcheck shell=bash
# Installs server packages without starting their services, neither now nor at the next
# boot. Source this file after contrib/setup.sh.

# The services in the packages that tests/backends/packages lists.
SERVICES=(carbon-cache carbon-c-relay influxdb prometheus victoria-metrics)

is_missing() {
  local package
  for package in "$@"; do is_installed "$package" || return 0; done
  return 1
}

# Before the scripts of a Debian package start a service, they run this program, whose
# exit status of 101 forbids the start. A script that may be interrupted during an
# installation must call allow_services when it exits.
services_policy=/usr/sbin/policy-rc.d
services_forbidden=0

forbid_services() {
  [[ ! -e $services_policy ]] || return 0
  services_forbidden=1
  printf '#!/bin/sh\nexit 101\n' | as_root tee "$services_policy" >/dev/null
  as_root chmod 755 "$services_policy"
}

allow_services() {
  [[ $services_forbidden -eq 0 ]] || as_root rm -f "$services_policy"
  services_forbidden=0
}

# install_without_services LOG PACKAGE...
install_without_services() {
  local log=$1 service new=() status=0
  shift
  is_missing "$@" || return 0
  for service in "${SERVICES[@]}"; do
    [[ -e /etc/init.d/$service ]] || new+=("$service")
  done
  forbid_services
  (install_missing "$log" "$@") || status=$?
  allow_services
  [[ $status -eq 0 ]] || return "$status"
  for service in ${new[@]+"${new[@]}"}; do
    [[ ! -e /etc/init.d/$service ]] ||
      as_root update-rc.d "$service" disable >/dev/null 2>&1 || true
  done
}

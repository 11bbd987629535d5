#!/usr/bin/env bash
# Installs the Debian packages that the named part of clustercep needs and this machine lacks.
# usage: system-packages.sh PACKAGE...      exits 0 when all are present, 1 with one line that says what to install
set -euo pipefail

missing=()
for package in "$@"; do
  state=$(dpkg-query -W -f='${Status}' "$package" 2>/dev/null || true)
  [ "$state" = "install ok installed" ] || missing+=("$package")
done
[ ${#missing[@]} -gt 0 ] || exit 0

by_hand="clustercep needs the system packages: ${missing[*]} - install them (Debian: apt-get install ${missing[*]}) and run this again"
command -v apt-get >/dev/null || { echo "$by_hand" >&2; exit 1; }

as_root=()
if [ "$(id -u)" -ne 0 ]; then
  sudo -n true 2>/dev/null || { echo "$by_hand" >&2; exit 1; }
  as_root=(sudo -n)
fi

# Daemons that come with a package (gmond, gmetad) must not start: the project runs its own under its own configuration.
policy=/usr/sbin/policy-rc.d
if [ ! -e "$policy" ]; then
  printf '#!/bin/sh\nexit 101\n' | "${as_root[@]}" tee "$policy" >/dev/null
  "${as_root[@]}" chmod +x "$policy"
  trap '"${as_root[@]}" rm -f "$policy"' EXIT
fi

echo "installing system packages: ${missing[*]}"
apt=("${as_root[@]}" env DEBIAN_FRONTEND=noninteractive timeout --foreground 15m apt-get -qq -o DPkg::Lock::Timeout=300)
install() { "${apt[@]}" install -y --no-install-recommends "${missing[@]}" >/dev/null; }
install 2>/dev/null || { "${apt[@]}" update >/dev/null && install; } || { echo "$by_hand" >&2; exit 1; }

#!/usr/bin/env bash
# Brings what some tests need and this machine lacks: Chromium, with fonts for what they show (DejaVu has Latin, Hebrew
# and Arabic, WenQuanYi Chinese, Japanese and Korean), PostgreSQL's server, rrdtool's command, libfaketime,
# Alertmanager with amtool, gmond with gmetric, rrdcached, and MIT's KDC with what the extra `kerberos` installs.
# Never fails: without them one line says so, and those tests are skipped (with CI=true they fail).
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)

bring() { # WHAT PROGRAM PACKAGE...
  local what=$1 program=$2 reason
  shift 2
  { reason=$("$here/system-packages.sh" "$@" 2>&1 >&3) && return 0; } 3>&1
  compgen -G "$program" >/dev/null || command -v "$program" >/dev/null || echo "no $what, its tests are skipped: ${reason##*$'\n'}" >&2
}

bring Chromium chromium chromium fonts-dejavu-core fonts-wqy-microhei
bring PostgreSQL "/usr/lib/postgresql/*/bin/initdb" postgresql
bring rrdtool rrdtool rrdtool
bring libfaketime faketime faketime
bring Alertmanager amtool prometheus-alertmanager
bring gmond /usr/sbin/gmond ganglia-monitor
bring rrdcached rrdcached rrdcached
bring KDC /usr/sbin/krb5kdc krb5-kdc krb5-admin-server

root=$here/../..
python=$root/.venv/bin/python
if [ -x "$python" ] && ! "$python" -c 'import gssapi' 2>/dev/null; then
  install() { "$python" -m pip install -q --disable-pip-version-check --require-hashes "$@" >/dev/null 2>&1; }
  { "$here/system-packages.sh" libkrb5-dev gcc libc6-dev python3-dev >/dev/null 2>&1 &&
    install -r "$root/requirements/kerberos-build.txt" &&
    install --no-build-isolation -r "$root/requirements/kerberos.txt"; } ||
    echo "no gssapi, the tests of Kerberos are skipped: requirements/kerberos.txt cannot be installed" >&2
fi

#!/usr/bin/env bash
# Brings what some tests need and this machine lacks: Chromium, with fonts for what they show (DejaVu has Latin, Hebrew
# and Arabic, WenQuanYi Chinese, Japanese and Korean), PostgreSQL's server, rrdtool's command, libfaketime, and
# Alertmanager with amtool. Never fails: without them one line says so, and those tests are skipped (with CI=true they
# fail).
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

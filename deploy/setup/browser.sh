#!/usr/bin/env bash
# Brings what the browser tests need and this machine lacks: Chromium, and fonts for what they show (DejaVu has Latin,
# Hebrew and Arabic, WenQuanYi Chinese, Japanese and Korean). Never fails: without Chromium one line says so, and those
# tests are skipped (with CI=true they fail).
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
{ reason=$("$here/system-packages.sh" chromium fonts-dejavu-core fonts-wqy-microhei 2>&1 >&3) && exit 0; } 3>&1
command -v chromium >/dev/null || echo "no Chromium, no browser tests: ${reason##*$'\n'}" >&2

#!/usr/bin/env bash
# Brings what the mini cluster needs and this machine lacks: Ganglia, a Java runtime and Maven from Debian,
# Hadoop's jars through Maven. Does nothing when all is there.
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
root=$(cd "$here/../.." && pwd)
library=${1:-$root/build/hadoop/lib}

packages=(ganglia-monitor gmetad rrdtool iproute2)
command -v java >/dev/null || [ -n "${JAVA_HOME:-}" ] || packages+=(openjdk-17-jre-headless)
version=$(sed -n 's:.*<hadoop.version>\(.*\)</hadoop.version>.*:\1:p' "$here/pom.xml")
stamp="$library/.complete-$(sha256sum "$here/pom.xml" | cut -c1-12)"
[ -e "$stamp" ] || command -v mvn >/dev/null || packages+=(maven)
"$here/../setup/system-packages.sh" "${packages[@]}"

if [ ! -e "$stamp" ]; then
  echo "fetching Hadoop $version and what it needs into $library (about 95 MB)"
  rm -rf "$library"
  mkdir -p "$library"
  timeout --foreground 15m mvn -q -B -Dstyle.color=never -f "$here/pom.xml" dependency:copy-dependencies -DincludeScope=runtime -DoutputDirectory="$library" || {
    echo "Maven could not fetch Hadoop $version (within 15 minutes); check its settings (a mirror or proxy goes into ~/.m2/settings.xml) and run this again" >&2
    exit 1
  }
  touch "$stamp"
fi

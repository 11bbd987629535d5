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

"$here/../setup/maven-jars.sh" "Hadoop $version" "$here/pom.xml" "$library" "about 95 MB"

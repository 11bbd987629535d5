#!/usr/bin/env bash
# Fetches the jars that a Maven project lists, and what they need, into a folder. Does nothing when they are there.
# usage: maven-jars.sh WHAT POM LIBRARY SIZE
set -euo pipefail
what=$1 pom=$2 library=$3 size=$4
stamp="$library/.complete-$(sha256sum "$pom" | cut -c1-12)"
[ ! -e "$stamp" ] || exit 0

packages=()
command -v java >/dev/null || [ -n "${JAVA_HOME:-}" ] || packages+=(openjdk-17-jre-headless)
command -v mvn >/dev/null || packages+=(maven)
"$(dirname "$0")/system-packages.sh" "${packages[@]}"

echo "fetching $what and what it needs into $library ($size)"
rm -rf "$library"
mkdir -p "$library"
timeout --foreground 15m mvn -q -B -Dstyle.color=never -f "$pom" dependency:copy-dependencies -DincludeScope=runtime -DoutputDirectory="$library" || {
  echo "Maven could not fetch $what (within 15 minutes); check its settings (a mirror or proxy goes into ~/.m2/settings.xml) and run this again" >&2
  exit 1
}
touch "$stamp"

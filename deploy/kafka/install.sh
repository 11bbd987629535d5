#!/usr/bin/env bash
# Brings the jars of a Kafka broker and of Spark's Kafka source through Maven. Does nothing when all is there.
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
root=$(cd "$here/../.." && pwd)
library=${1:-$root/build/kafka/lib}
"$here/../setup/maven-jars.sh" Kafka "$here/pom.xml" "$library" "about 50 MB"

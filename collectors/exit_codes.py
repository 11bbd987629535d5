"""What exit codes of YARN's containers mean."""

from __future__ import annotations

from collections.abc import Mapping

EXIT_CODES: Mapping[int, str] = {
    -100: "aborted by the framework",
    -101: "the disks of its node failed",
    -102: "preempted",
    -103: "beyond its virtual memory",
    -104: "beyond its physical memory",
    -105: "killed by its ApplicationMaster",
    -106: "killed by the ResourceManager",
    -107: "killed after its application had ended",
    -109: "its logs were too large",
    137: "killed (SIGKILL), for its memory or by somebody",
    143: "ended (SIGTERM)",
}
"""Of ContainerExitStatus and of signals."""

SPARED = frozenset({-1000, -100, -102, -105, -106, -107, -108})
"""Of containers that somebody did without (their application or its end, a scheduler that gave their room to others,
the loss of a node), or that have none yet: they did not fail."""

__all__ = ["EXIT_CODES", "SPARED"]

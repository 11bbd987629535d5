"""stub"""

from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True)
class Finding:
    holds: bool
    text: str


def verify(folder: Path) -> list[Finding]:
    return []

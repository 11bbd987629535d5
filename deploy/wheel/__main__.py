"""`make wheel`."""

from __future__ import annotations

import argparse
import sys

from deploy.wheel.build import ROOT, build
from deploy.wheel.check import check
from deploy.wheel.errors import WheelError
from deploy.wheel.levels import DEFAULT, LEVELS


def main(words: list[str]) -> int:
    """Make a wheel and check it; the exit code: 0, or 2 where it is not made or not what it should be."""
    parser = argparse.ArgumentParser(prog="python -m deploy.wheel", description=__doc__)
    parser.add_argument("--level", choices=LEVELS, default=DEFAULT, help="what processors have that are to run it")
    asked = parser.parse_args(words)
    try:
        wheel = build(asked.level)
        print(f"{wheel.relative_to(ROOT)}  {wheel.stat().st_size / 2**20:,.1f} MiB")
        check(wheel)
    except WheelError as error:
        print(f"clustercep: {error}", file=sys.stderr)
        return 2
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))

"""YAML whose lists and mappings are nested without end: PyYAML looks through all brackets that are open at each token,
so that the time grows with the square of their depth, and a few kilobytes take seconds."""

from __future__ import annotations

from typing import Any

import yaml

MAX_FLOW_DEPTH = 64
"""Of lists and mappings in brackets within each other; people write a handful."""


def too_deep(mark: Any) -> yaml.YAMLError:
    """The error that names the place of the first that is too deep."""
    message = f"lists or mappings nested too deeply: more than {MAX_FLOW_DEPTH} within each other"
    return yaml.scanner.ScannerError(None, None, message, mark)


class ShallowFlow(yaml.BaseLoader):
    """A loader, or before another one in the bases of a class, which refuses what is nested deeper."""

    def fetch_flow_collection_start(self, token: type[Any]) -> None:
        """As the loader does; raises yaml.YAMLError with the place of the first bracket that is too deep."""
        if self.flow_level >= MAX_FLOW_DEPTH:
            raise too_deep(self.get_mark())
        super().fetch_flow_collection_start(token)


__all__ = ["MAX_FLOW_DEPTH", "ShallowFlow", "too_deep"]

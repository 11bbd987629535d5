"""Reading YAML that people write: whatever is wrong with it is one kind of error, and so is a key given twice or text
that is no Unicode."""

from __future__ import annotations

from typing import Any

import yaml

from collectors.yaml_depth import ShallowFlow
from engine.event_types import lone_surrogate

MERGE_TAG = "tag:yaml.org,2002:merge"


class _Loader(ShallowFlow, yaml.SafeLoader):
    """The safe loader, which would let the last of two equal keys win."""

    def construct_mapping(self, node: yaml.MappingNode, deep: bool = False) -> dict[Any, Any]:
        """As the safe loader does, once the keys are known to differ."""
        seen: set[str] = set()
        for key, _ in node.value if isinstance(node, yaml.MappingNode) else ():
            if not isinstance(key, yaml.ScalarNode) or key.tag == MERGE_TAG:
                continue
            if key.value in seen:
                raise yaml.constructor.ConstructorError(None, None, f"the key {key.value!r} twice", key.start_mark)
            seen.add(key.value)
        made: dict[Any, Any] = super().construct_mapping(node, deep)
        return made

    def construct_scalar(self, node: yaml.ScalarNode | yaml.MappingNode) -> str:
        """As the safe loader does, but for an escape (`\\ud83d`) that is half a character: no file could hold it."""
        found: str = super().construct_scalar(node)
        if isinstance(found, str) and lone_surrogate(found) is not None:
            what = "half of a surrogate pair, which is no character; write the whole one"
            raise yaml.constructor.ConstructorError(None, None, what, node.start_mark)
        return found


def load_yaml(text: str) -> Any:
    """The content of a YAML text; raises yaml.YAMLError for anything that is wrong with it.

    The safe loader lets through what its parts raise: a date that does not exist, a number of too many digits, lists
    nested too deeply.
    """
    try:
        return yaml.load(text, _Loader)  # noqa: S506 - a safe loader
    except (ValueError, AttributeError, TypeError, KeyError, OverflowError) as error:
        raise yaml.YAMLError(f"a value that cannot be read ({error})") from error
    except RecursionError as error:
        raise yaml.YAMLError("lists or mappings nested too deeply") from error

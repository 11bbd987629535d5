"""YAML that is lists, mappings and texts alone, as lists of targets are: `rack: 12` is a text, and 1:1:1 no number.

Read event by event by libyaml, where PyYAML has it, in a tenth of the time that PyYAML's own scanner needs, and without
recursion.
"""

from __future__ import annotations

from typing import Any

import yaml

from collectors.yaml_depth import MAX_FLOW_DEPTH, ShallowFlow, too_deep

_Loader: type[yaml.BaseLoader] = getattr(yaml, "CBaseLoader", ShallowFlow)
_STARTS = {yaml.SequenceStartEvent: list, yaml.MappingStartEvent: dict}


def load_plain(text: str) -> Any:
    """The one document of a text: lists, dicts of texts and str, None where there is none; tags mean nothing.

    Raises yaml.YAMLError for what is no YAML, a second document, a reference (of which a few lines could mean more than
    fits into memory), a key that is no text, and what is nested deeper than MAX_FLOW_DEPTH.
    """
    try:
        return _built(text)
    except ValueError as error:  # of characters that YAML cannot hold
        raise yaml.YAMLError(f"a text that cannot be read ({error})") from error


def _built(text: str) -> Any:
    n_documents, root = 0, None
    open_: list[list[Any] | dict[str, Any]] = []
    keys: list[str | None] = []  # of each that is open: the key whose value comes next
    event: Any
    for event in yaml.parse(text, _Loader):
        kind = type(event)
        if kind is yaml.ScalarEvent:
            value = event.value
        elif kind in _STARTS:
            if len(open_) >= MAX_FLOW_DEPTH:
                raise too_deep(event.start_mark)
            value = _STARTS[kind]()
        elif kind is yaml.SequenceEndEvent or kind is yaml.MappingEndEvent:
            open_.pop()
            keys.pop()
            continue
        elif kind is yaml.AliasEvent:
            raise _error("a reference (*name); expected YAML without any", event)
        else:
            n_documents += kind is yaml.DocumentStartEvent
            if n_documents > 1:
                raise _error("another document; expected one", event)
            continue
        if not open_:
            root = value
        elif isinstance(within := open_[-1], list):
            within.append(value)
        elif (key := keys[-1]) is not None:
            within[key], keys[-1] = value, None
        elif kind is yaml.ScalarEvent:
            keys[-1] = value
            continue
        else:
            raise _error("a key that is a list or a mapping; expected a text", event)
        if kind is not yaml.ScalarEvent:
            open_.append(value)
            keys.append(None)
    return root


def _error(what: str, event: Any) -> yaml.YAMLError:
    return yaml.parser.ParserError(None, None, what, event.start_mark)


__all__ = ["load_plain"]

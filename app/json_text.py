"""JSON texts of many small values, by encoders that are made once.

`JSONEncoder.encode` makes its C encoder anew for each value, which takes as long as a small value itself.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any


def json_encoder(
    *, sort_keys: bool = False, separators: tuple[str, str] = (", ", ": "), default: Callable[[Any], Any] | None = None
) -> Callable[[Any], str]:
    """The same texts as those of json.JSONEncoder with these options, in ASCII; values contain no cycles."""
    plain = json.JSONEncoder(check_circular=False, sort_keys=sort_keys, separators=separators, default=default)
    make: Any = getattr(json.encoder, "c_make_encoder", None)  # undocumented, hence the comparison below
    between, after_name = separators
    try:
        encode = make(
            None, plain.default, json.encoder.encode_basestring_ascii, None, after_name, between, sort_keys, False, True
        )

        def text(value: Any) -> str:
            return "".join(encode(value, 0))

        sample = {"b": [1, 2.5, None, True, 'é"\\'], "a": {}}
        return text if text(sample) == plain.encode(sample) else plain.encode
    except (TypeError, ValueError):
        return plain.encode


json_text = json_encoder()

__all__ = ["json_encoder", "json_text"]

"""A part of the configuration."""

from __future__ import annotations

from pydantic import BaseModel, ConfigDict


def key_of(field_name: str) -> str:
    """The key of a field in the file: without its unit."""
    return field_name.removesuffix("_ms").removesuffix("_bytes")


class Section(BaseModel):
    """A part of the configuration: frozen, unknown keys refused."""

    model_config = ConfigDict(
        frozen=True, extra="forbid", alias_generator=key_of, populate_by_name=True, hide_input_in_errors=True
    )


__all__ = ["Section", "key_of"]

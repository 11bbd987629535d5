"""How alerts stand, as rows and filters name it."""

OPEN_STATES = ("firing", "acknowledged")
"""Alerts leave these states when the watermark passes them: there are few however many alerts the store holds."""

SILENCED = "silenced"
"""How an alert that a silence covers is called beside its state: in a filter, what is firing or acknowledged and
silenced."""

__all__ = ["OPEN_STATES", "SILENCED"]

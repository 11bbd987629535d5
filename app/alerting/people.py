"""Who acts on alerts, and what they may do. Roles are checked where something is done, not where it is offered."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

from app.errors import AppError


class Role(StrEnum):
    """What somebody may do; each may do what those before it may."""

    VIEWER = "viewer"
    """Look."""
    OPERATOR = "operator"
    """Acknowledge, assign, close and silence, and send again what was given up."""
    ADMIN = "admin"
    """Also silence for longer than a week."""

    @property
    def rank(self) -> int:
        """Greater is more."""
        return list(Role).index(self)


class ForbiddenError(AppError):
    """Somebody may not do what they ask for."""


@dataclass(frozen=True)
class Person:
    """Somebody who was told apart, or nobody in particular."""

    name: str
    """As the history shows it."""
    role: Role = Role.OPERATOR
    identity: str = ""
    """What tells them apart from others of the same name (issuer and subject of a login); "": the name does."""

    def need(self, role: Role, what: str) -> None:
        """Raises ForbiddenError unless this is somebody with that role, or one that may do more."""
        if self.role.rank < role.rank:
            raise ForbiddenError(
                f"{self.name} is {self.role}, and may not {what}; expected the role {role}: whoever gives the roles "
                "can give it (docs/alerting.md, People)"
            )


__all__ = ["ForbiddenError", "Person", "Role"]

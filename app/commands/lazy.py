"""Commands that are imported when they are called: help, completion and other commands do not wait for them.

Nothing that a command imports becomes garbage, so a process that `without_looking_for_garbage` looks for none until its
command begins: a seventh of the processor time of a short one went into that.
"""

from __future__ import annotations

import gc
from collections.abc import Callable, Mapping
from functools import wraps
from importlib import import_module
from typing import Any, ClassVar, NamedTuple

import typer
from typer.core import TyperCommand, TyperGroup


class Command(NamedTuple):
    """Where a command is: a function, or a group of commands. `help`: the first sentence of its own.

    `module` is below `app.commands`.
    """

    module: str
    name: str
    help: str


def without_looking_for_garbage() -> None:
    """Until the command of this process begins; for the process that does nothing but the command."""
    gc.disable()


def look_for_garbage() -> None:
    """From now on, unless it was so all the time; what is there is never looked at again."""
    if not gc.isenabled():
        gc.freeze()
        gc.enable()


def _looking_for_garbage(command: Callable[..., Any]) -> Callable[..., Any]:
    @wraps(command)
    def begin(*args: Any, **keywords: Any) -> Any:
        look_for_garbage()
        return command(*args, **keywords)

    return begin


class LazyCommands(TyperGroup):
    """The commands of `table`, each imported when it is asked for."""

    table: ClassVar[Mapping[str, Command]] = {}

    def list_commands(self, _ctx: Any) -> list[str]:
        """As they stand in the table."""
        return list(self.table)

    def get_command(self, _ctx: Any, cmd_name: str) -> Any:
        """None for a name that no command has."""
        entry = self.table.get(cmd_name)
        if entry is None:
            return None
        found: Any = getattr(import_module(f"app.commands.{entry.module}"), entry.name)
        if not isinstance(found, typer.Typer):
            alone = typer.Typer(add_completion=False, rich_markup_mode=None)
            alone.command()(_looking_for_garbage(found))
            found = alone
        command = typer.main.get_command(found)
        command.name = cmd_name
        if isinstance(command, TyperGroup) and not isinstance(command, LazyCommands):
            look_for_garbage()
        return command

    def resolve_command(self, ctx: Any, args: list[str]) -> Any:
        """As Typer does, which looks for the nearest of a mistyped name among these."""
        self.commands: dict[str, Any] = dict.fromkeys(self.table)
        return super().resolve_command(ctx, args)

    def format_commands(self, _ctx: Any, formatter: Any) -> None:
        """As click does, from the table."""
        width = formatter.width - 6 - max(map(len, self.table))
        told = [TyperCommand(name, help=entry.help) for name, entry in self.table.items()]
        with formatter.section("Commands"):
            formatter.write_dl([(str(command.name), command.get_short_help_str(width)) for command in told])


__all__ = ["Command", "LazyCommands", "look_for_garbage", "without_looking_for_garbage"]

"""Checks of what a query's alerts tell: ALERT and REPORT with their texts, SHOW, HOSTS and ONSET."""

from __future__ import annotations

from dataclasses import dataclass

from engine.language.ast import Aspect, NamedHost, Notice, Query, Severity, Shown
from engine.language.scopes import Checked, Scope
from engine.language.source import did_you_mean, shown
from engine.language.templates import ASPECTS, BOUND_QUERIES, FORMATS, UNIT, placeholders
from engine.language.types import Kind


def check_alert_clauses(
    query: Query, kinds: dict[str, Kind], key: dict[str, Kind], scope: Scope, checked: Checked
) -> None:
    """Check what ALERT, INCIDENT, REPORT, SHOW, HOSTS and ONSET say of the values of RETURN (by name), of the
    attributes of the partition key, which the text and HOSTS may name as well, and of the variables.

    Raises QueryTypeError with the place and the remedy.
    """
    _AlertClauses(query, kinds, {**key, **kinds}, checked).check(scope)


@dataclass(frozen=True)
class _AlertClauses:
    query: Query
    kinds: dict[str, Kind]
    named: dict[str, Kind]
    """What the text and HOSTS may name."""
    checked: Checked

    def check(self, scope: Scope) -> None:
        notice = self.query.notice
        if notice is not None:
            self._check_text(notice)
            for name in notice.per:
                self._check_name(name, f"PER names {name}", notice)
        self._check_alert_is_there()
        for item in self.query.shown:
            self._check_shown(item)
        for host in self.query.hosts:
            self._check_host(host)
        self._check_onset(scope)

    def _check_text(self, notice: Notice) -> None:
        for braces, _ in placeholders(notice.summary):
            inside = braces[1:-1]
            if notice.is_incident and inside == BOUND_QUERIES:
                continue
            name, colon, form = inside.partition(":")
            name, dot, aspect = name.partition(".")
            self._check_named(name, f"the text mentions {shown(braces)}", notice)
            if dot:
                self._check_name(name, f"the text mentions {shown(braces)}", notice)
                self._check_aspect(braces, name, aspect, notice)
            if colon:
                self._check_format(braces, name, form, notice)

    def _check_aspect(self, braces: str, name: str, aspect: str, notice: Notice) -> None:
        if aspect not in ASPECTS:
            raise self.checked.error(
                notice.span,
                f"the text mentions {shown(braces)}, and no value is called {shown(aspect)}",
                f"{{{name}}}, or one of {', '.join(f'{{{name}.{known}}}' for known in ASPECTS)}",
                did_you_mean(aspect, ASPECTS),
            )
        if notice.severity is Severity.REPORT:
            raise self.checked.error(
                notice.span,
                f"the text mentions {shown(braces)}, but a row of a report is of one match",
                f"{{{name}}}",
                "write ALERT if the matches of an episode are to become one alert",
            )
        self._check_number(ASPECTS[aspect], name, f"the text mentions {shown(braces)}", notice)

    def _check_format(self, braces: str, name: str, form: str, notice: Notice) -> None:
        if form not in FORMATS:
            raise self.checked.error(
                notice.span,
                f"the text mentions {shown(braces)}, and no format is called {shown(form)}",
                f"one of {', '.join(f'{known} (of {unit})' for known, unit in FORMATS.items())}",
                did_you_mean(form, FORMATS),
            )
        if not self.named[name].is_number:
            raise self.checked.error(
                notice.span,
                f"the text mentions {shown(braces)}, but {name} is {self.named[name].value}",
                f"a number for {form}",
                f"write {{{name}}}",
            )
        if form == UNIT:
            self._check_name(UNIT, f"the text mentions {shown(braces)}", notice)

    def _check_alert_is_there(self) -> None:
        query = self.query
        if query.notice is not None and query.notice.severity is not Severity.REPORT:
            return
        for keyword, given in (("SHOW", query.shown), ("HOSTS", query.hosts), ("ONSET", query.onset)):
            if given:
                raise self.checked.error(
                    query.clause_span(keyword),
                    f"{keyword} says what an alert tells, but the query raises none",
                    "ALERT severity 'text' beside it",
                    f"add ALERT, or leave {keyword} out",
                )

    def _check_shown(self, item: Shown) -> None:
        for name in (item.name, *item.beside):
            self._check_name(name, f"SHOW names {name}", item)
        self._check_number(item.aspect, item.name, f"SHOW asks for {item.aspect.value} {item.name}", item)

    def _check_host(self, host: NamedHost) -> None:
        self._check_named(host.name, f"HOSTS names {host.name}", host)
        if self.named[host.name].is_number and self.named[host.name] is not Kind.NULL:
            raise self.checked.error(
                host.span,
                f"HOSTS names {host.name}, which is {self.named[host.name].value}",
                "a value of RETURN that is the name of a host",
            )
        if host.value is not None:
            self._check_name(host.value, f"HOSTS shows {host.value} beside {host.name}", host)

    def _check_onset(self, scope: Scope) -> None:
        name = self.query.onset
        if name is None or (name in scope and not scope[name].negated):
            return
        named = [variable.name for variable in scope.values() if not variable.negated]
        raise self.checked.error(
            self.query.clause_span("ONSET"),
            f"ONSET names {name}, "
            + (
                "which is negated: a match has no such event"
                if name in scope
                else "which is no variable of the pattern"
            ),
            f"one of {', '.join(named)}",
            None if name in scope else did_you_mean(name, named),
        )

    def _check_number(self, aspect: Aspect, name: str, where: str, node: Notice | Shown) -> None:
        if aspect in (Aspect.MAX, Aspect.MIN) and not self.kinds[name].is_number:
            raise self.checked.error(
                node.span,
                f"{where}, but {name} is {self.kinds[name].value}",
                "a number for MAX and MIN",
                "ask for FIRST or LAST",
            )

    def _check_named(self, name: str, where: str, node: Notice | NamedHost) -> None:
        if name not in self.named:
            self._check_name(name, where, node)

    def _check_name(self, name: str, where: str, node: Notice | Shown | NamedHost) -> None:
        if name not in self.kinds:
            raise self.checked.error(
                node.span,
                f"{where}, which is no value of RETURN",
                f"one of {', '.join(self.kinds)}" if self.kinds else "a RETURN clause with that value",
                did_you_mean(name, self.kinds) or "add it to RETURN",
            )

"""Inhibition: while one alert fires, others that follow from it are not told."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from app.alerting.dispatch.matchers import Matchers, all_match

Labels = Mapping[str, str]


@dataclass(frozen=True)
class InhibitRule:
    """While an alert matches the source, those that match the target and have equal labels are inhibited."""

    source: Matchers
    target: Matchers
    equal: tuple[str, ...]

    def values(self, labels: Labels) -> tuple[str, ...]:
        """What has to be equal; a label that is not there is an empty one."""
        return tuple(labels.get(name, "") for name in self.equal)


class Inhibitions:
    """What is inhibited by the alerts that go on."""

    def __init__(self, rules: Sequence[InhibitRule], going_on: Iterable[tuple[str, Labels]]) -> None:
        """`going_on`: ids and labels of the alerts that are not over."""
        alerts = list(going_on) if rules else []
        found = [(rule, _sources(rule, alerts)) for rule in rules]
        self._rules = [(rule, sources) for rule, sources in found if any(sources)]

    def by(self, labels: Labels) -> str | None:
        """The id of an alert that inhibits those with these labels; None: there is none.

        As in Alertmanager, what matches both sides of a rule is not inhibited by what does so, too: nothing inhibits
        itself.
        """
        for rule, (one_sided, two_sided) in self._rules:
            if not all_match(rule.target, labels):
                continue
            values = rule.values(labels)
            if (source := one_sided.get(values)) is not None:
                return source
            if (source := two_sided.get(values)) is not None and not all_match(rule.source, labels):
                return source
        return None


_ByValues = dict[tuple[str, ...], str]


def _sources(rule: InhibitRule, alerts: Sequence[tuple[str, Labels]]) -> tuple[_ByValues, _ByValues]:
    """Alerts that match the source, by the values that have to be equal: those that do not match the target, and those
    that do."""
    one_sided: _ByValues = {}
    two_sided: _ByValues = {}
    for alert_id, labels in alerts:
        if all_match(rule.source, labels):
            by_values = two_sided if all_match(rule.target, labels) else one_sided
            by_values.setdefault(rule.values(labels), alert_id)
    return one_sided, two_sided


__all__ = ["InhibitRule", "Inhibitions", "Labels"]

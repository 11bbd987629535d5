"""What of the routing works, but perhaps not as it is meant: for `clustercep check`."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from app.alerting.dispatch.inhibition import InhibitRule
from app.alerting.dispatch.matchers import Matchers, matchers_text
from app.alerting.dispatch.routes import Route, Routing
from app.alerting.payload import read_template
from app.alerting.text import names_in
from app.errors import ConfigError
from app.nearest_name import did_you_mean
from app.settings import Receiver

_FIELDS = """
alertname alert_id application at_least_one at_least_one_high at_least_one_low at_least_one_method confidence end
expectation fingerprint host hosts_affected hosts_left_out hosts_suspect job last_seen matches n_alerts n_firing
n_resolved notification_reason query queue raised reason receiver runbook severity shedding start state summary url user
"""
FIELDS = frozenset(_FIELDS.split())
"""Names that templates may use whatever the query: see payload.template_fields and notice.group_fields."""
_ASPECTS = ("first", "last", "max", "min")


def doubts(
    routing: Routing, severities: Mapping[str, str | None], external_labels: Collection[str], labels: Collection[str]
) -> Iterator[str]:
    """`severities`: of each query that runs; None: it raises no alerts. `labels`: all that alerts may have."""
    yield from _receivers_without_route(routing)
    alerting = {name: severity for name, severity in severities.items() if severity is not None}
    known = {"severity": set(alerting.values()), "alertname": set(alerting)}
    places = [(f"alerting.route: {route.key}", route.matchers) for route in routing.root.all()]
    for number, rule in enumerate(routing.rules):
        places.append((f"alerting.inhibit_rules.{number}.source_matchers", rule.source))
        places.append((f"alerting.inhibit_rules.{number}.target_matchers", rule.target))
    for place, matchers in places:
        yield from _without_alerts(place, matchers, known, external_labels)
    yield from _without_label(places, labels)
    yield from _labels_of_routes(routing.root)
    yield from _sides_without_matchers(routing.rules)


def _receivers_without_route(routing: Routing) -> Iterator[str]:
    routed = {route.receiver for route in routing.root.all()}
    for name in sorted(routing.receivers.keys() - routed):
        yield f"alerting.receivers.{name}: no route leads to it, so it is told nothing"


def _without_label(places: Sequence[tuple[str, Matchers]], labels: Collection[str]) -> Iterator[str]:
    """Conditions that no alert fulfils, since none has the label; each label once, with the first place."""
    told: dict[str, list[str]] = {}
    for place, matchers in places:
        for matcher in matchers:
            if matcher.name not in labels and not matcher.matches({}):
                told.setdefault(matcher.name, []).append(f"{place}: no alert has the label of {matcher}")
    for name, (first, *others) in sorted(told.items()):
        more = f" (nor of {len(others)} more such matcher{'s' if len(others) > 1 else ''})" if others else ""
        yield f"{first}{more}; alerting.external_labels gives {name} to all alerts, else these lead nowhere"


def _sides_without_matchers(rules: Sequence[InhibitRule]) -> Iterator[str]:
    """What a rule hides that has them on one side only, or on none."""
    for number, rule in enumerate(rules):
        place = f"alerting.inhibit_rules.{number}"
        equal = f" with equal {', '.join(rule.equal)}" if rule.equal else ""
        if not rule.source and not rule.target:
            yield f"{place}: it has neither source_matchers nor target_matchers, so it hides nothing"
        elif not rule.target:
            source = matchers_text(rule.source)
            yield f"{place}: it has no target_matchers: while an alert fulfils {source}, all others{equal} are hidden"
        elif not rule.source:
            target = matchers_text(rule.target)
            yield f"{place}: it has no source_matchers: any alert hides those{equal} that fulfil {target}"


def _labels_of_routes(route: Route, above: Mapping[str, str] | None = None) -> Iterator[str]:
    """Alertmanager fills them in where they are templates of Go."""
    for name, text in sorted(route.labels.items()):
        if "{{" in text and (above is None or above.get(name) != text):
            yield f"alerting.route: {route.key}: its label {name} is a template of Go, which stays in messages as it is"
    for child in route.routes:
        yield from _labels_of_routes(child, route.labels)


def _without_alerts(
    place: str, matchers: Matchers, known: Mapping[str, set[str]], external_labels: Collection[str]
) -> Iterator[str]:
    """Conditions on severity and alertname that no query fulfils."""
    for matcher in matchers:
        values = known.get(matcher.name)
        if values is None or matcher.name in external_labels:
            continue
        if not any(matcher.matches({matcher.name: value}) for value in values):
            what = "query" if matcher.name == "alertname" else "severity of a query"
            near = did_you_mean(matcher.value, sorted(values), "; ")
            yield f"{place}: no {what} fulfils {matcher}; there are {', '.join(sorted(values)) or 'none'}{near}"


def template_doubts(
    receivers: Mapping[str, Receiver], returned: Collection[str], labels: Collection[str]
) -> Iterator[str]:
    """Names in templates that no alert has; `returned`: RETURN values and keys of all queries."""
    known = {*FIELDS, *returned, *labels, *(f"value_{name}" for name in returned)}
    known |= {f"{name}.{aspect}" for name in returned for aspect in _ASPECTS}
    known |= {f"{aspect}_{name}" for name in returned for aspect in _ASPECTS}
    for name, receiver in sorted(receivers.items()):
        if receiver.template is None or receiver.template.suffix == ".j2":  # Jinja's names are checked by trying
            continue
        unknown = sorted(_names(_read(receiver.template)) - known)
        if unknown:
            named = ", ".join(f"{{{text}}}" for text in unknown)
            yield f"alerting.receivers.{name}.template: no alert has {named}; it is sent as it stands there"


def _read(path: Path) -> Any:
    try:
        return read_template(path, "template")
    except ConfigError:  # told as a problem of the receiver
        return None


def _names(template: Any) -> frozenset[str]:
    if isinstance(template, str):
        return names_in(template)
    parts = template.values() if isinstance(template, dict) else template if isinstance(template, list) else ()
    return frozenset().union(*map(_names, parts))


__all__ = ["doubts", "template_doubts"]

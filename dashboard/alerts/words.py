"""What the figures of an alert mean, in words."""

from __future__ import annotations

from app.alerting.recording.kept import expectation_of, is_shed
from app.alerting.text import EXPECTATION_TEXTS, at_least_one_text, percent_text
from dashboard.store import AlertRow


def n_matches(alert: AlertRow) -> str:
    """`1,204`, or `at least 1,204`."""
    return f"{alert.n_matches:,}" if alert.n_matches_exact else f"at least {alert.n_matches:,}"


def n_alerts(n: int, exact: bool) -> str:
    """`37 alerts`, or `more than 10,000 alerts`."""
    if not exact:
        return f"more than {n:,} alerts"
    return "1 alert" if n == 1 else f"{n:,} alerts"


def n_entries(n_incidents: int, n_others: int, exact: bool = True, n_behind: int = 0) -> str:
    """`2 incidents with 7 open alerts behind them, 4 other alerts`: an incident is no alert, it has some. Not
    `exact`: not told apart either.
    """
    if not exact:
        return f"more than {n_incidents + n_others:,} alerts and incidents"
    if not n_incidents:
        return n_alerts(n_others, exact)
    incidents = "1 incident" if n_incidents == 1 else f"{n_incidents:,} incidents"
    if n_behind:
        behind = "1 open alert" if n_behind == 1 else f"{n_behind:,} open alerts"  # others behind it may be over
        incidents += f" with {behind} behind {'it' if n_incidents == 1 else 'them'}"
    if not n_others:
        return incidents
    return f"{incidents}, {'1 other alert' if n_others == 1 else f'{n_others:,} other alerts'}"


def suspects(alert: AlertRow) -> str:
    """The first suspect, and how many hosts there are beside it; affected ones where nobody is suspected."""
    if not alert.host:
        return ""
    n_more = len(alert.hosts) - 1 + alert.n_hosts_left_out
    return f"{alert.host} +{n_more}" if n_more > 0 else alert.host


def percent(confidence: float) -> str:
    """`certain`, `87.3 %`; never 100 % for what is not certain, never 0 % for what is possible."""
    return "certain" if confidence >= 1 else percent_text(confidence)


def at_least_one(alert: AlertRow) -> str:
    """P(at least one match) for a narrow column: `certain`, `93 %`, `81 to 97 %`, `at least 81 %`, `about 93 %`."""
    told = at_least_one_text(alert).split(" (")[0]
    return told.removeprefix("between ").replace(" and ", " to ")


def meaning(alert: AlertRow) -> str:
    """What the probability says, for somebody who never read of possible worlds."""
    if (expectation := expectation_of(alert)) is not None:
        return f"Not known: this is about trends, and {EXPECTATION_TEXTS[expectation]}."
    if alert.at_least_one_method == "certain":
        if alert.best_confidence >= 1:
            return (
                "Certain: whatever the true times of its events are within what their sources tell, they happened in "
                "this order and within the query's window."
            )
        return (
            "Certain: no match is one whatever the true times of its events are, but whatever they are, one of the "
            "matches is."
        )
    why = "Some events are known to an interval of time only; whether they fit the pattern depends on their true times."
    if alert.n_matches == 1 and alert.n_matches_exact:
        return f"{why} For {_share(alert)} of all times that they may have had, they do."
    best = f"The best single match is real in {percent(alert.best_confidence)}."
    some = f"For {_share(alert)} of all times that they may have had, at least one match is real."
    return f"{why} {some} {best}{_how(alert)}"


def _share(alert: AlertRow) -> str:
    """The share of possible times, within a sentence."""
    told = at_least_one_text(alert)
    return "a share that is not known" if told == "unknown" else told.split(" (")[0]


def _how(alert: AlertRow) -> str:
    """Why the number is not exact, where it is not."""
    match alert.at_least_one_method:
        case "bounds":
            return (
                " The exact number would take too long, or the matches were not all looked at: the true one lies "
                "within these bounds."
            )
        case "estimate":
            return (
                " The number is an estimate from a sample of possible times; behind ± stand two standard errors, which "
                "it keeps within 19 times out of 20."
            )
    return ""


def matches_meaning(alert: AlertRow) -> str:
    """What the number of matches says."""
    if is_shed(alert):
        return (
            "Found while the least useful partial matches were dropped to hold engine.latency_bound: there are at "
            "least so many matches."
        )
    if not alert.n_matches_exact:
        return "Counting stopped at a limit of the engine (max_rows or work_budget): there are at least so many."
    return "Every way in which the events fit the pattern is one match; all of this episode are this one alert."

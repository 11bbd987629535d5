"""What the figures of an alert mean, in words."""

from __future__ import annotations

from dashboard.store import AlertRow


def n_matches(alert: AlertRow) -> str:
    """`1,204`, or `at least 1,204`."""
    return f"{alert.n_matches:,}" if alert.n_matches_exact else f"at least {alert.n_matches:,}"


def n_alerts(n: int, exact: bool) -> str:
    """`37 alerts`, or `more than 10,000 alerts`."""
    if not exact:
        return f"more than {n:,} alerts"
    return "1 alert" if n == 1 else f"{n:,} alerts"


def percent(confidence: float) -> str:
    """`certain`, `87.3 %`; never 100 % for what is not certain, never 0 % for what is possible."""
    if confidence >= 1:
        return "certain"
    if confidence > 0.999:
        return "> 99.9 %"
    if confidence < 0.001:
        return "< 0.1 %"
    return f"{min(confidence * 100, 99.9):.3g} %"


def meaning(alert: AlertRow) -> str:
    """What the confidence says, for somebody who never read of possible worlds."""
    if alert.best_confidence >= 1:
        return (
            "Certain: whatever the true times of its events are within what their sources tell, they happened in this "
            "order and within the query's window."
        )
    best = (
        f"Some of its events are known to an interval of time only. Over all their possible times, the events of the "
        f"best match happened in this order and within the window with a probability of "
        f"{percent(alert.best_confidence)}."
    )
    if alert.n_matches == 1 and alert.n_matches_exact:
        return best
    return f"{best} That at least one of its matches is real is at least as likely."


def matches_meaning(alert: AlertRow) -> str:
    """What the number of matches says."""
    if not alert.n_matches_exact:
        return "Counting stopped at a limit of the engine (max_rows or work_budget): there are at least so many."
    return "Every way in which the events fit the pattern is one match; all of this episode are this one alert."

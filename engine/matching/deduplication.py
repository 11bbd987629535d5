"""Matches that bind the same events to the same variables, in several ways, as one."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from engine.matching.output.binding_digests import binding_digests, groups_of
from engine.matching.output.listed import Matches
from engine.matching.work_account import WorkAccount
from engine.uncertainty.possibilities import united
from engine.uncertainty.union_probability import OutOfWorkError, UnionProbability

WORK_LIMIT = 10_000
"""Of the confidence of matches that share worlds: about two seconds."""
_PER_LOOK = 10_000
"""Steps in the time in which `UnionProbability` looks at a match once."""


def distinct(found: Matches) -> Matches:
    """Equal bindings of one partition once, in the most certain way, as confident as it is that any of them happened.

    `unfinished` when that would be too much work for some of them: these are left out.
    """
    listed = found.listed
    order, bounds = groups_of(binding_digests(found))
    lengths = np.diff(bounds)
    if len(lengths) == found.n_matches:
        return found
    confidence = listed.confidence.copy()
    possible = None if found.possible is None else list(found.possible)
    is_chosen = np.zeros(found.n_matches, np.bool_)
    is_chosen[order[bounds[:-1][lengths == 1]]] = True
    n_lost = 0
    several = lengths > 1
    for start, n in zip(bounds[:-1][several].tolist(), lengths[several].tolist(), strict=True):
        group = order[start : start + n].tolist()
        joint = confidence_of_any(found, group)
        if joint is None:
            n_lost += 1
            continue
        best = max(group, key=lambda match: float(listed.confidence[match]))
        is_chosen[best] = True
        confidence[best] = joint
        if possible is not None:
            known = [each for match in group if (each := possible[match]) is not None]
            possible[best] = united(known) if len(known) == len(group) else None
    kept = replace(
        found,
        listed=listed._replace(confidence=confidence),
        possible=None if possible is None else tuple(possible),
        unfinished=found.unfinished or n_lost > 0,
    )
    return kept.chosen(np.flatnonzero(is_chosen))


def confidence_of_any(matches: Matches, group: Sequence[int], account: WorkAccount | None = None) -> float | None:
    """How sure it is that one of these matches of the same events happened; None: too much work, or more than is left
    in the account, which pays for it.

    Where it is not known in which worlds they are matches they are sequences: different orders exclude each other, the
    divisions of one order into iterations share its worlds.
    """
    listed, number = matches.listed, matches.events.number
    if len(group) == 1 or listed.confidence[group].max() >= 1.0:
        return min(float(listed.confidence[group].max()), 1.0)
    possible = [] if matches.possible is None else [matches.possible[match] for match in group]
    known = [each for each in possible if each is not None]
    if len(known) == len(group):
        found = united(known)
        work_limit = WORK_LIMIT
        if account is not None:
            work_limit = min(work_limit, account.allowance_at(int(number[matches.last[group[0]]])) // (2 * _PER_LOOK))
        evaluator = UnionProbability(found.times, work_limit)
        try:
            return min(evaluator.of(found.matches), 1.0)
        except OutOfWorkError:
            return None
        finally:
            if account is not None:
                account.settle(_PER_LOOK * evaluator.n_work)
    by_order: dict[tuple[int, ...], float] = {}
    for match in group:
        order = tuple(number[listed.rows[listed.offsets[match] : listed.offsets[match + 1]]].tolist())
        by_order[order] = max(by_order.get(order, 0.0), float(listed.confidence[match]))
    return min(sum(by_order.values()), 1.0)


__all__ = ["confidence_of_any", "distinct"]

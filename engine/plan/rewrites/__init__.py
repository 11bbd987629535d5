"""Rewrites of the pattern before it is planned: small functions from pattern to pattern, applied in this order.

None changes which events bind which variable. `RULES` keep the pattern one; `expanded` makes the union of patterns
that OR, `?`, `*` and ANY stand for.
"""

from __future__ import annotations

from collections.abc import Callable

from engine.language import ast
from engine.plan.rewrites.alternatives import expanded
from engine.plan.rewrites.flat import flatten
from engine.plan.rewrites.negated_closure import single_negations
from engine.plan.rewrites.single import drop_single

Rule = Callable[[ast.Pattern], ast.Pattern]

RULES: tuple[Rule, ...] = (flatten, drop_single)
"""Applied until none changes the pattern."""


def rewritten(pattern: ast.Pattern) -> ast.Pattern:
    """The pattern after all rules, each applied as often as it changes something."""
    while True:
        before = pattern
        for rule in RULES:
            pattern = rule(pattern)
        if pattern == before:
            return pattern


__all__ = ["RULES", "Rule", "expanded", "rewritten", "single_negations"]

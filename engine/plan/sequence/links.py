"""What a predicate asks of two neighbours b[i-1] and b[i], as code over the stack (`engine.plan.programs`).

A comparison that keeps the two apart, `key OP value` with the key about b[i-1] and the value about b[i], admits the
events whose keys lie on one side of the value. One that does not, `b[i].x - b[i-1].x > 5`, does so too where it rises
or falls with one attribute of b[i-1]; rounding keeps that order. Both sides may have what is known of a match from the
start: other components, numbers.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from engine.kernels.pairs.links import HIGH_KEYS, KEY_AGAINST_VALUE, LOW_KEYS, OTHER
from engine.kernels.programs import opcodes as op
from engine.plan.programs import Programs

Slice = tuple[int, int]
"""Where an expression is in the code."""

_NO_OPERAND = frozenset({op.CONST, op.COLUMN, op.AGGREGATE})
_ONE_OPERAND = frozenset({op.NEGATE, op.SQRT, op.NOT, op.MEMBER})
_INVERSE = {op.EQ: op.NE, op.NE: op.EQ, op.LT: op.GE, op.GE: op.LT, op.GT: op.LE, op.LE: op.GT}
_TURNED = {op.EQ: op.EQ, op.NE: op.NE, op.LT: op.GT, op.GT: op.LT, op.LE: op.GE, op.GE: op.LE}


@dataclass(frozen=True)
class Link:
    """One predicate about b[i-1]: see `engine.kernels.pairs.links.LinkTables.links`.

    key: of KEY_AGAINST_VALUE; of LOW_KEYS and HIGH_KEYS the attribute that it rises or falls with.
    """

    program: int
    kind: int
    operation: int = 0
    key: Slice = (0, 0)
    value: Slice = (0, 0)

    def as_row(self) -> tuple[int, ...]:
        """As the kernels take it."""
        return (self.program, self.kind, self.operation, *self.key, *self.value)


@dataclass(frozen=True)
class Links:
    """Predicates about b[i-1] together; `ordered`: they are about one key, or there is none."""

    links: tuple[Link, ...]
    ordered: bool


class LinkAnalysis:
    """Reads the code of predicates about b[i-1], whose register is `previous`."""

    def __init__(self, programs: Programs, previous: int) -> None:
        self._code = programs.code
        self._bounds = programs.bounds
        self._constants = programs.constants
        self._current = programs.current
        self._previous = previous

    def of(self, programs: list[int]) -> Links:
        """Each program in the form in which all of them are about one key, or in its own."""
        apart = [self._apart(program) for program in programs]
        if self._one_order(apart):
            return Links(tuple(apart), ordered=True)
        by_attribute = [link if self._is_attribute(link) else self._monotone(link) for link in apart]
        if self._one_order(by_attribute):
            return Links(tuple(by_attribute), ordered=True)
        return Links(tuple(apart), ordered=False)

    def _one_order(self, links: list[Link]) -> bool:
        """Whether all admit events by one key, with at most one of them leaving some in the middle out."""
        n_gaps = sum(link.kind == KEY_AGAINST_VALUE and link.operation == op.NE for link in links)
        keys = {tuple(self._code[slice(*link.key)].ravel().tolist()) for link in links}
        return all(link.kind != OTHER for link in links) and len(keys) <= 1 and n_gaps <= 1

    def _is_attribute(self, link: Link) -> bool:
        return link.kind == KEY_AGAINST_VALUE and link.key[1] - link.key[0] == 1

    def _apart(self, program: int) -> Link:
        """The comparison with b[i-1] on one side alone, if it is one; the key on the left."""
        comparison = self._comparison(program)
        if comparison is not None:
            operation, left, right = comparison
            for key, value, turned in ((left, right, operation), (right, left, _TURNED[operation])):
                if not self._reads(value) and not self._reads_current(key):
                    return Link(program, KEY_AGAINST_VALUE, turned, key, value)
        return Link(program, OTHER)

    def _monotone(self, link: Link) -> Link:
        """The inequality as one that rises or falls with the only attribute of b[i-1] in it, if it does."""
        comparison = self._comparison(link.program)
        if comparison is None or comparison[0] in (op.EQ, op.NE):
            return Link(link.program, OTHER)
        operation, left, right = comparison
        rises = self._direction(left) if self._reads(left) else -self._direction(right)
        keys = self._reads((left[0], right[1]))
        if rises == 0 or len(keys) != 1:
            return Link(link.program, OTHER)
        wants_high = (operation in (op.GT, op.GE)) == (rises > 0)
        return Link(link.program, HIGH_KEYS if wants_high else LOW_KEYS, key=(keys[0], keys[0] + 1))

    def _comparison(self, program: int) -> tuple[int, Slice, Slice] | None:
        """Operation, left and right side; NOT is taken in: both are unknown for the same values."""
        start, end = int(self._bounds[program]), int(self._bounds[program + 1])
        negated = False
        while self._code[end - 1, 0] == op.NOT:
            negated = not negated
            end -= 1
        operation = int(self._code[end - 1, 0])
        if operation not in _INVERSE:
            return None
        middle = self._start_of_last(end - 1)
        return (_INVERSE[operation] if negated else operation), (start, middle), (middle, end - 1)

    def _start_of_last(self, end: int) -> int:
        """Where the expression begins whose code ends before `end`."""
        at, missing = end, 1
        while missing:
            at -= 1
            operation = int(self._code[at, 0])
            missing += -1 if operation in _NO_OPERAND else 0 if operation in _ONE_OPERAND else 1
        return at

    def _direction(self, expression: Slice) -> int:
        """1 if the value never falls as b[i-1] grows, -1 if it never rises, 0 if neither is known."""
        start, end = expression
        operation = int(self._code[end - 1, 0])
        if end - start == 1:
            return int(bool(self._reads(expression)))
        if operation == op.NEGATE:
            return -self._direction((start, end - 1))
        if operation not in (op.ADD, op.SUBTRACT, op.MULTIPLY, op.DIVIDE):
            return 0
        middle = self._start_of_last(end - 1)
        left, right = (start, middle), (middle, end - 1)
        in_left = bool(self._reads(left))
        if operation in (op.ADD, op.SUBTRACT):
            return self._direction(left) if in_left else self._direction(right) * (1 if operation == op.ADD else -1)
        if operation == op.DIVIDE and not in_left:
            return 0
        return self._direction(left) * self._sign(right) if in_left else self._direction(right) * self._sign(left)

    def _sign(self, expression: Slice) -> int:
        """That of a number that is written out, else 0."""
        start, end = expression
        if end - start == 2 and self._code[end - 1, 0] == op.NEGATE:
            return -self._sign((start, end - 1))
        if end - start != 1 or self._code[start, 0] != op.CONST:
            return 0
        number = self._constants[self._code[start, 1]]
        return 0 if np.isnan(number) else int(np.sign(number))

    def _reads(self, expression: Slice) -> list[int]:
        """Where an expression reads b[i-1]."""
        code = self._code
        return [k for k in range(*expression) if code[k, 0] == op.COLUMN and code[k, 1] == self._previous]

    def _reads_current(self, expression: Slice) -> bool:
        code = self._code
        return any(code[k, 0] == op.COLUMN and code[k, 1] == self._current for k in range(*expression))


__all__ = ["Link", "LinkAnalysis", "Links"]

"""Programs whose operands are terms: each attribute or aggregate of a condition has a register or slot of its own.

The evaluator finds the events that a term is about on the chain of a run, so that every form of predicate can be
evaluated, whatever its variables are to each other.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from engine.events import TIME_ATTRIBUTE
from engine.kernels.programs import opcodes as op
from engine.language import ast
from engine.plan.programs import ProgramBuilder


@dataclass
class TermBuilder(ProgramBuilder):
    """A ProgramBuilder that numbers the terms of each program from 0: rows[k] or aggregates[k] is term k."""

    terms: list[ast.Attribute | ast.Aggregate] = field(default_factory=list)

    def add_terms(self, expression: ast.Expression) -> tuple[int, tuple[ast.Attribute | ast.Aggregate, ...]]:
        """Append the program of `expression`; its number and its terms in order."""
        self.terms = []
        program = self.add(expression)
        return program, tuple(self.terms)

    def column_of(self, term: ast.Attribute | ast.Aggregate) -> int:
        """The column that a term reads, -1 for the number of events."""
        if isinstance(term, ast.Aggregate) and term.name is None:
            return -1 if term.function == "count" else self.column(TIME_ATTRIBUTE)
        assert term.name is not None
        return self.column(term.name)

    def share_columns(self, other: ProgramBuilder) -> None:
        """Number the columns of both in one list."""
        other._columns = self._columns

    def _register(self, node: ast.Attribute) -> int:
        return self._number(node)

    def _emit_aggregate(self, node: ast.Aggregate) -> int:
        if node.name is not None:
            self.column(node.name)
        self._code.append((op.AGGREGATE, self._number(node), 0))
        return 1

    def _number(self, node: ast.Attribute | ast.Aggregate) -> int:
        if node not in self.terms:
            self.terms.append(node)
        return self.terms.index(node)


__all__ = ["TermBuilder"]

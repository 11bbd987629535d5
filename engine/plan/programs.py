"""Expressions as data: programs over registers, columns and running aggregates for the precompiled kernels.

Registers hold row numbers of the store. A positive component p has two: FIRST (v, or v[1]) and LAST (the event taken
last: v[i-1] while another is considered, v[v.len] afterwards). One more, CURRENT, is the event under consideration:
v[i], or an event of a negated component.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt

from engine.errors import QueryTypeError, UnsupportedQueryError
from engine.events import TIME_ATTRIBUTE, Float64Array
from engine.kernels.programs import opcodes as op
from engine.kernels.programs import strategies
from engine.language import ast
from engine.language.printer import print_expression

Int32Array = npt.NDArray[np.int32]

_COMPARISONS = {"=": op.EQ, "!=": op.NE, "<": op.LT, "<=": op.LE, ">": op.GT, ">=": op.GE}
_ARITHMETIC = {"+": op.ADD, "-": op.SUBTRACT, "*": op.MULTIPLY, "/": op.DIVIDE, "%": op.MODULO}


_STRATEGIES: dict[ast.Strategy, int] = {strategy: getattr(strategies, strategy.name) for strategy in ast.Strategy}


class NoPlainProgramError(UnsupportedQueryError):
    """A predicate whose terms the registers of a plain plan cannot hold; an automaton plan has one for each."""


def strategy_number(strategy: ast.Strategy) -> int:
    """Its number in kernels."""
    return _STRATEGIES[strategy]


@dataclass(frozen=True, slots=True)
class Slot:
    """One running aggregate of a Kleene component; `base` is the slot that a LAG slot copies."""

    kind: int
    component: int
    column: int = -1
    base: int = -1


@dataclass(frozen=True)
class Programs:
    """All programs of one query as arrays.

    code: int32 (n, 3); bounds: int32 (n_programs + 1,); constants: float64 (k,) where string literals are NaN until
    `with_strings` puts the codes of an engine in; columns: attribute names by column number; n_registers.
    """

    code: Int32Array
    bounds: Int32Array
    constants: Float64Array
    string_constants: tuple[tuple[int, str], ...]
    columns: tuple[str, ...]
    slots: tuple[Slot, ...]
    n_registers: int

    @property
    def current(self) -> int:
        """The number of the CURRENT register."""
        return self.n_registers - 1

    def with_strings(self, code_of: Callable[[str], int]) -> Float64Array:
        """The constants with each string literal replaced by its code."""
        constants = self.constants.copy()
        for position, text in self.string_constants:
            constants[position] = code_of(text)
        return constants

    def upkeep_of(self, slot: int) -> frozenset[int]:
        """A running aggregate and those from which its next value is made."""
        kind = self.slots[slot].kind
        if kind == op.AGG_LAG:
            return frozenset({slot}) | self.upkeep_of(self.slots[slot].base)
        depth = {op.AGG_MEAN: 1, op.AGG_M2: 2}.get(kind, 0)
        return frozenset(range(slot - depth, slot + 1))

    def slot_arrays(self) -> tuple[Int32Array, Int32Array, Int32Array, Int32Array]:
        """kinds, components, columns and bases of the slots, each int32 (n_slots,)."""
        table = np.array([[s.kind, s.component, s.column, s.base] for s in self.slots], np.int32).reshape(-1, 4)
        return tuple(np.ascontiguousarray(table[:, k]) for k in range(4))  # type: ignore[return-value]


def first_register(component: int) -> int:
    """Register of the first (or only) event of a positive component."""
    return 2 * component


def last_register(component: int) -> int:
    """Register of the event of a positive component that was taken last."""
    return 2 * component + 1


@dataclass
class ProgramBuilder:
    """Collects the programs of one query; `positions` maps each positive variable to its component number."""

    positions: Mapping[str, int]
    negated: frozenset[str]
    kleene: frozenset[str]
    _code: list[tuple[int, int, int]] = field(default_factory=list)
    _bounds: list[int] = field(default_factory=lambda: [0])
    _constants: list[float] = field(default_factory=list)
    _strings: list[tuple[int, str]] = field(default_factory=list)
    _columns: list[str] = field(default_factory=list)
    _slots: list[Slot] = field(default_factory=list)

    def add(self, expression: ast.Expression) -> int:
        """Append the program of `expression`; returns its number."""
        if self._emit(expression) > op.MAX_STACK:
            raise UnsupportedQueryError(
                "expression too deep", expression.span, f"at most {op.MAX_STACK} nested terms", "split the predicate"
            )
        self._bounds.append(len(self._code))
        return len(self._bounds) - 2

    def column(self, attribute: str) -> int:
        """The number of the column that holds `attribute`."""
        if attribute not in self._columns:
            self._columns.append(attribute)
        return self._columns.index(attribute)

    @property
    def n_columns(self) -> int:
        """Columns so far."""
        return len(self._columns)

    def build(self) -> Programs:
        """The arrays of everything added so far."""
        return Programs(
            code=np.array(self._code, np.int32).reshape(-1, 3),
            bounds=np.array(self._bounds, np.int32),
            constants=np.array(self._constants, np.float64),
            string_constants=tuple(self._strings),
            columns=tuple(self._columns),
            slots=tuple(self._slots),
            n_registers=2 * len(self.positions) + 1,
        )

    def _emit(self, node: ast.Expression) -> int:
        """Append code for `node`; returns the depth of stack that it needs."""
        match node:
            case ast.Literal():
                self._code.append((op.CONST, self._constant(node.value), 0))
                return 1
            case ast.Attribute():
                self._code.append((op.COLUMN, self._register(node), self.column(node.name)))
                return 1
            case ast.Aggregate():
                return self._emit_aggregate(node)
            case ast.Negative():
                return self._unary(op.NEGATE, node.operand)
            case ast.Not():
                return self._unary(op.NOT, node.operand)
            case ast.Arithmetic():
                return self._binary(_ARITHMETIC[node.op], node.left, node.right)
            case ast.Comparison():
                return self._binary(_COMPARISONS[node.op], node.left, node.right)
            case ast.AllOf() | ast.OneOf():
                depth = self._emit(node.operands[0])
                for operand in node.operands[1:]:
                    depth = max(depth, 1 + self._emit(operand))
                    self._code.append((op.AND if isinstance(node, ast.AllOf) else op.OR, 0, 0))
                return depth
            case ast.Membership():
                depth = self._emit(node.operand)
                numbers = [self._constant(o.value) for o in node.options if isinstance(o, ast.Literal)]
                self._code.append((op.MEMBER, numbers[0], len(numbers)))
                return depth
            case ast.TrendAggregate():
                raise AssertionError("aggregates over trends are no values of a match")
            case ast.Parameter():
                raise QueryTypeError(f"parameter :{node.name} has no value", node.span)

    def _unary(self, operation: int, operand: ast.Expression) -> int:
        depth = self._emit(operand)
        self._code.append((operation, 0, 0))
        return depth

    def _binary(self, operation: int, left: ast.Expression, right: ast.Expression) -> int:
        depth_left = self._emit(left)
        depth_right = self._emit(right)
        self._code.append((operation, 0, 0))
        return max(depth_left, 1 + depth_right)

    def _constant(self, value: float | str | None) -> int:
        if isinstance(value, str):
            self._strings.append((len(self._constants), value))
        self._constants.append(np.nan if value is None or isinstance(value, str) else float(value))
        return len(self._constants) - 1

    def _register(self, node: ast.Attribute) -> int:
        if node.variable in self.negated:
            return 2 * len(self.positions)
        component = self.positions[node.variable]
        match node.index:
            case ast.Index.SINGLE | ast.Index.FIRST:
                return first_register(component)
            case ast.Index.CURRENT:
                return 2 * len(self.positions)
            case ast.Index.PREVIOUS | ast.Index.LAST:
                return last_register(component)
            case ast.Index.NEXT:
                raise AssertionError("neighbours in a trend have programs of their own")

    def _emit_aggregate(self, node: ast.Aggregate) -> int:
        component = self.positions[node.variable]
        lagged = node.range is ast.Range.BEFORE_LAST
        if node.function == "repeats":
            raise NoPlainProgramError(f"{print_expression(node)}: a run keeps all values that it has seen", node.span)
        if node.function in ("first", "last"):
            if lagged and node.function == "last":
                raise NoPlainProgramError(f"last({node.variable}[..{node.variable}.len-1])", node.span)
            register = first_register if node.function == "first" else last_register
            self._code.append((op.COLUMN, register(component), self.column(node.name or TIME_ATTRIBUTE)))
            return 1 + self._emit_known_before_last(component) if lagged else 1
        if node.name is None:
            return self._push_slot(Slot(op.AGG_COUNT_EVENTS, component), lagged)
        column = self.column(node.name)
        match node.function:
            case "count":
                return self._push_slot(Slot(op.AGG_COUNT, component, column), lagged)
            case "sum":
                return self._push_slot(Slot(op.AGG_SUM, component, column), lagged)
            case "min":
                return self._push_slot(Slot(op.AGG_MIN, component, column), lagged)
            case "max":
                return self._push_slot(Slot(op.AGG_MAX, component, column), lagged)
            case "avg":
                self._push_slot(Slot(op.AGG_SUM, component, column), lagged)
                self._push_slot(Slot(op.AGG_COUNT, component, column), lagged)
                self._code.append((op.DIVIDE, 0, 0))
                return 2
            case "stddev":
                return self._emit_stddev(component, column, lagged)
        raise UnsupportedQueryError(f"aggregate {node.function} is not evaluated by this version", node.span)

    def _emit_known_before_last(self, component: int) -> int:
        """Make the value on the stack NULL where no event precedes the last one: times 1 or 0 / 0, which is NULL.

        The number of events is compared with 1 so that longer prefixes need not be told apart (`AGG_COUNT_EVENTS`
        stops at a cap where matches are counted).
        """
        for _ in range(2):
            self._push_slot(Slot(op.AGG_COUNT_EVENTS, component), lagged=True)
            self._code += [(op.CONST, self._constant(1), 0), (op.GE, 0, 0)]
        self._code += [(op.DIVIDE, 0, 0), (op.MULTIPLY, 0, 0)]
        return 3

    def _emit_stddev(self, component: int, column: int, lagged: bool) -> int:
        """Population standard deviation: sqrt(M2 / n), from three slots that stand together."""
        m2 = Slot(op.AGG_M2, component, column)
        if m2 not in self._slots:
            self._slots += [Slot(op.AGG_COUNT, component, column), Slot(op.AGG_MEAN, component, column), m2]
        at = self._slots.index(m2)
        for slot in (at, at - 2):
            number = self._lag(slot) if lagged else slot
            self._code.append((op.AGGREGATE, number, 0))
        self._code += [(op.DIVIDE, 0, 0), (op.SQRT, 0, 0)]
        return 2

    def _push_slot(self, slot: Slot, lagged: bool) -> int:
        if slot not in self._slots:
            self._slots.append(slot)
        number = self._slots.index(slot)
        self._code.append((op.AGGREGATE, self._lag(number) if lagged else number, 0))
        return 1

    def _lag(self, base: int) -> int:
        slot = Slot(op.AGG_LAG, self._slots[base].component, base=base)
        if slot not in self._slots:
            self._slots.append(slot)
        return self._slots.index(slot)

"""Hypothesis strategies: random patterns as text, with what their variables stand for."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace

from hypothesis import strategies as st

KEYED_TYPES = ("A", "B", "C")
"""Types with both key attributes."""


@dataclass(frozen=True)
class PatternScope:
    """What patterns to draw.

    `n_negated`: how many more negations stand between the other elements of the whole pattern, one of these numbers;
    `unions`: OR, `?`, `*`, `{n,m}`; `groups`: repeated groups; `conjunctions`: AND; `any_of`: ANY; `negated_patterns`:
    negation of more than one component.
    """

    n_components: tuple[int, int] = (1, 4)
    negation: bool = True
    unions: bool = False
    groups: bool = False
    conjunctions: bool = False
    any_of: bool = False
    negated_patterns: bool = False
    n_negated: tuple[int, ...] = (0,)
    partial_keys: bool = False


@dataclass(frozen=True)
class Part:
    """A component: `closure` when it is Kleene by itself; `path` the groups around it; `negation` the one it is in."""

    event_type: str
    variable: str
    closure: bool
    path: tuple[int, ...] = ()
    negation: int | None = None

    @property
    def is_many(self) -> bool:
        """Whether it is a list when seen from outside."""
        return self.closure or bool(self.path)


@dataclass(frozen=True)
class _Spot:
    """Where an element stands. `certain`: it must have an event; `keyed`: types with all keys alone."""

    path: tuple[int, ...] = ()
    negation: int | None = None
    depth: int = 0
    certain: bool = False
    keyed: bool = False
    edge: bool = False  # at the edge of an operand of AND, where no negation may stand


@dataclass
class _Sketch:
    """A pattern in the making."""

    draw: st.DrawFn
    scope: PatternScope
    parts: list[Part] = field(default_factory=list)
    n_groups: int = 0
    n_negations: int = 0

    def sequence(self) -> str:
        """The whole pattern."""
        n_elements = self.draw(st.integers(*self.scope.n_components))
        certain = self.draw(st.integers(0, n_elements - 1))
        texts = [self.element(_Spot(certain=k == certain)) for k in range(n_elements)]
        for _ in range(self.draw(st.sampled_from(self.scope.n_negated))):
            self.add_negation(texts)
        return f"SEQ({', '.join(texts)})"

    def add_negation(self, texts: list[str]) -> None:
        """Before, after or between the elements, beside other negations too."""
        kinds = ["negated", "negated", "negated pattern"] if self.scope.negated_patterns else ["negated"]
        kind = self.draw(st.sampled_from(kinds))
        texts.insert(self.draw(st.integers(0, len(texts))), self.of_kind(kind, _Spot()))

    def element(self, spot: _Spot) -> str:
        kinds = ["single", "single", "kleene"]
        inside_negation = spot.negation is not None
        if self.scope.negation and not (spot.certain or spot.edge or inside_negation):
            kinds.append("negated")
            kinds += ["negated pattern"] if self.scope.negated_patterns else []
        if self.scope.unions:
            kinds += ["bounded"] if spot.certain else ["optional", "star", "bounded", "bounded or none"]
        is_roomy = spot.depth < 2 and len(self.parts) < 4
        if is_roomy:
            kinds += ["or"] if self.scope.unions else []
            kinds += ["group", "group"] if self.scope.groups else []
            kinds += ["and", "and"] if self.scope.conjunctions else []
            kinds += ["any"] if self.scope.any_of else []
        return self.of_kind(self.draw(st.sampled_from(kinds)), spot)

    def of_kind(self, kind: str, spot: _Spot) -> str:
        inner = replace(spot, depth=spot.depth + 1)
        match kind:
            case "negated":
                return "!" + self.component("single", self.negated(spot))
            case "negated pattern":
                return "!" + self.negated_pattern(self.negated(inner))
            case "or":
                return f"OR({self.short(inner)}, {self.short(inner)})"
            case "group":
                return self.group(inner)
            case "and":
                n_operands = self.draw(st.sampled_from([2, 2, 3]))
                return f"AND({', '.join(self.operand(inner, k == 0) for k in range(n_operands))})"
            case "any":
                n_parts = self.draw(st.integers(2, 3))
                count = self.draw(st.integers(1, n_parts))
                return f"ANY({count}, {', '.join(self.component('single', spot) for _ in range(n_parts))})"
            case _:
                return self.component(kind, spot)

    def component(self, kind: str, spot: _Spot) -> str:
        names = ["A", "B", "C"] + ([] if spot.keyed else ["L"]) + (["P"] if self.scope.partial_keys else [])
        if spot.keyed:
            names = list(KEYED_TYPES)
        if spot.negation is not None:
            names = ["N", "N", "B", "B", "C", "L"]
        name = self.draw(st.sampled_from(names))
        variable = f"v{len(self.parts)}"
        self.parts.append(Part(name, variable, kind not in ("single", "optional"), spot.path, spot.negation))
        bounds = {"bounded": ["{1,2}", "{2,3}", "{2,}", "{2}"], "bounded or none": ["{0,2}", "{0,3}"]}
        if kind in bounds:
            return f"{name}{self.draw(st.sampled_from(bounds[kind]))} {variable}[]"
        return {
            "single": f"{name} {variable}",
            "kleene": f"{name}+ {variable}[]",
            "optional": f"{name}? {variable}",
            "star": f"{name}* {variable}[]",
        }[kind]

    def short(self, spot: _Spot) -> str:
        """One element or a sequence of two."""
        first = self.element(replace(spot, certain=True))
        if self.draw(st.booleans()) or len(self.parts) > 4:
            return first
        return f"SEQ({first}, {self.element(replace(spot, certain=False))})"

    def operand(self, spot: _Spot, certain: bool) -> str:
        """An operand of AND: no negation at its edges."""
        inside = replace(spot, edge=True, certain=certain)
        if self.draw(st.integers(0, 2)) > 0 or len(self.parts) > 3:
            return self.element(inside)
        first = self.element(replace(inside, certain=True))
        middle = ""
        if self.scope.negation and spot.negation is None and self.draw(st.integers(0, 3)) == 0:
            middle = self.of_kind("negated", spot) + ", "
        return f"SEQ({first}, {middle}{self.element(replace(inside, certain=True))})"

    def group(self, spot: _Spot) -> str:
        """A repeated group; one with a choice inside has keyed types alone, so that each iteration has a key."""
        path = (*spot.path, self.n_groups)
        self.n_groups += 1
        keyed = spot.keyed or self.scope.unions or self.scope.any_of
        inside = replace(spot, path=path, keyed=keyed)
        bounds = ["+", "+", "{1,2}", "{2,}", "{2}", "{2,3}"] + ([] if spot.certain else ["*", "*"])
        repeat = self.draw(st.sampled_from(bounds))
        form = self.draw(st.sampled_from(["two", "two", "two", "one", "three"]))
        if form == "one":
            return f"({self.one_in_group(inside)}){repeat}"
        texts = [self.element(replace(inside, certain=True)), self.element(replace(inside, certain=False))]
        if form == "three" and len(self.parts) < 4:
            texts.append(self.element(replace(inside, certain=False)))
        if not spot.edge and self.scope.negation and spot.negation is None and self.draw(st.integers(0, 5)) == 0:
            texts.insert(0, self.of_kind("negated", inside))
        return f"(SEQ({', '.join(texts)})){repeat}"

    def one_in_group(self, spot: _Spot) -> str:
        kinds = ["kleene"] + (["or"] if self.scope.unions else []) + (["and"] if self.scope.conjunctions else [])
        return self.of_kind(self.draw(st.sampled_from(kinds)), replace(spot, certain=True))

    def negated(self, spot: _Spot) -> _Spot:
        self.n_negations += 1
        return replace(spot, negation=self.n_negations, certain=True)

    def negated_pattern(self, spot: _Spot) -> str:
        forms = ["sequence", "kleene", "or", "bounded", "group", "and"]
        match self.draw(st.sampled_from(forms)):
            case "sequence":
                second = self.draw(st.sampled_from(["single", "kleene"]))
                return f"SEQ({self.component('single', spot)}, {self.component(second, spot)})"
            case "or":
                return f"OR({self.component('single', spot)}, {self.component('single', spot)})"
            case "and":
                return f"AND({self.component('single', spot)}, {self.component('single', spot)})"
            case "group":
                inside = replace(spot, path=(*spot.path, self.n_groups))
                self.n_groups += 1
                return f"(SEQ({self.component('single', inside)}, {self.component('single', inside)}))+"
            case kind:
                return self.component(kind, spot)


@st.composite
def patterns(draw: st.DrawFn, scope: PatternScope) -> tuple[str, Sequence[Part]]:
    """A pattern's text, and its components."""
    sketch = _Sketch(draw, scope)
    return sketch.sequence(), tuple(sketch.parts)


__all__ = ["KEYED_TYPES", "Part", "PatternScope", "patterns"]

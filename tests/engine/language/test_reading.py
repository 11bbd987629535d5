"""On which events of a Kleene variable a conjunct holds: SASE+'s begin and take."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest

from engine.events import AttributeType, EventSchema
from engine.language.ast import Aggregate, Attribute, Expression, Index, walk
from engine.language.parser import parse
from engine.language.printer import print_expression
from engine.language.reading import Start
from engine.language.resolver import ResolvedQuery, resolve

CONFORMANCE = Path(__file__).parents[4] / "shared" / "conformance"
STOCK = dict.fromkeys(("price", "symbol", "volume"), AttributeType.INT)
SCHEMA = EventSchema.of({"stock": STOCK})


def _resolve(where: str) -> ResolvedQuery:
    text = f"PATTERN SEQ(stock a, stock+ b[], stock+ c[]) WHERE skip_till_any_match {{ {where} }} WITHIN 10"
    return resolve(parse(text), SCHEMA, text=text)


@pytest.mark.parametrize(
    ("where", "starts"),
    [
        ("a.volume = 1", [Start.PER_MATCH]),
        ("b[1].volume = 1", [Start.PER_MATCH]),
        ("b[b.len].volume > avg(b[..b.len-1].volume)", [Start.PER_MATCH]),
        ("b[i].volume = 1", [Start.FROM_FIRST]),
        ("a.price = b[i].price AND b[1].volume = 2", [Start.FROM_FIRST, Start.PER_MATCH]),
        ("b[1].volume = 2 AND b[i].volume = 3", [Start.PER_MATCH, Start.FROM_SECOND]),
        ("b[i].volume = 3 AND b[1].volume = 2", [Start.FROM_SECOND, Start.PER_MATCH]),
        ("b[1].volume = 2 AND b[i].price > b[1].price", [Start.PER_MATCH, Start.FROM_SECOND]),
        ("b[1].volume = 2 AND b[i].price != avg(b[].price)", [Start.PER_MATCH, Start.FROM_FIRST]),
        ("b[1].volume = 2 AND b[i].price > first(b[..b.len-1].price)", [Start.PER_MATCH, Start.FROM_FIRST]),
        ("b[1].volume = a.volume AND b[i].volume = 3", [Start.PER_MATCH, Start.FROM_FIRST]),
        ("b[1].volume > b[b.len].volume AND b[i].volume = 3", [Start.PER_MATCH, Start.FROM_FIRST]),
        ("b[1].volume = 2 AND c[i].volume = 3", [Start.PER_MATCH, Start.FROM_FIRST]),
        ("b[i].volume > b[i-1].volume", [Start.FROM_SECOND]),
        ("b[i].volume > max(b[..i-1].volume)", [Start.FROM_SECOND]),
        ("b[i-1].volume > a.volume", [Start.FROM_SECOND]),
        ("b[i].volume > avg(b[].volume)", [Start.FROM_FIRST]),
        ("b[1].volume = 2 AND (b[i].volume = 3 OR a.volume = 4)", [Start.PER_MATCH, Start.FROM_FIRST]),
    ],
)
def test_first_event_of_each_conjunct(where: str, starts: list[Start]) -> None:
    assert [reading.start for reading in _resolve(where).reading] == starts


def test_sentences_name_the_variable_and_the_reason() -> None:
    first, second = _resolve("b[1].volume = 2 AND b[i].volume = 3").reading
    assert (first.variable, second.variable) == (None, "b")
    assert second.sentence == (
        "b[i].volume = 3 holds from the second event of b on: the first is constrained by b[1].volume = 2"
    )


def _placement(resolved: ResolvedQuery) -> dict[str, tuple[set[str], set[str]]]:
    """(begin, take) of every component, in the notation of the structured cases."""
    order = list(resolved.variables)
    placed: dict[str, tuple[set[str], set[str]]] = {name: (set(), set()) for name in order}
    for predicate, reading in zip(resolved.query.predicates, resolved.reading, strict=True):
        names = {node.variable for node in walk(predicate) if isinstance(node, (Attribute, Aggregate))}
        at = max(names, key=order.index)
        begin, take = placed[at]
        text = _structured(predicate, at, order)
        if reading.start is not Start.FROM_SECOND:
            begin.add(text)
        if reading.start is not Start.PER_MATCH:
            take.add(text)
    return placed


def _structured(predicate: Expression, at: str, order: list[str]) -> str:
    text = print_expression(predicate)
    for node in walk(predicate):
        if isinstance(node, Aggregate):
            inner = f"{node.function}(${order.index(node.variable) + 1}.{node.name})"
        elif not isinstance(node, Attribute):
            continue
        elif node.index is Index.PREVIOUS:
            inner = f"$previous.{node.name}"
        elif node.variable == at:
            inner = node.name
        else:
            inner = f"${order.index(node.variable) + 1}.{node.name}"
        text = re.sub(rf"(?<![\w$.]){re.escape(print_expression(node))}(?!\w)", inner, text)
    return text


@pytest.mark.external
@pytest.mark.skipif(not CONFORMANCE.is_dir(), reason="the shared conformance cases are not there")
@pytest.mark.parametrize("path", sorted(CONFORMANCE.glob("*.json")), ids=lambda path: path.stem)
def test_conformance_cases_are_read_as_their_structured_form_says(path: Path) -> None:
    case: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
    components = case["components"]
    schema = EventSchema.of({component["type"]: STOCK for component in components})
    resolved = resolve(parse(case["query"]), schema, text=case["query"])
    assert resolved.query.strategy is not None
    assert resolved.query.strategy.value == case["strategy"].replace("-", "_")
    assert resolved.within_ms == case["window"]
    assert list(resolved.key) == case["equivalence"]
    kinds = {"single": (False, False), "kleene": (True, False), "negation": (False, True)}
    found = {v.name: (v.event_type, (v.kleene, v.negated)) for v in resolved.variables.values()}
    assert found == {c["var"]: (c["type"], kinds[c["kind"]]) for c in components}
    expected = {c["var"]: (set(c["begin"]), set(c["take"])) for c in components}
    assert _placement(resolved) == expected

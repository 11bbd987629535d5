"""Templates in Jinja: strings of a JSON file, rendered in a sandbox within bounds.

Values come from whoever submits jobs, templates from the operator. Values are never parsed as templates and are escaped
where they leave an expression (`finalize`), so there is no way around it. What a template can do is an allow-list: no
attributes but items of mappings, no calls but `range`, filters of one list, no includes, macros or assignments of
blocks. Loops, texts and time are counted, since an innocent template may meet a group of a thousand alerts.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextvars import ContextVar
from dataclasses import dataclass, field
from typing import Any, TypeGuard

from jinja2 import Environment, StrictUndefined, Undefined, nodes, pass_environment
from jinja2.environment import Template as JinjaText
from jinja2.exceptions import SecurityError, TemplateSyntaxError
from jinja2.exceptions import TemplateError as JinjaError
from jinja2.filters import make_attrgetter
from jinja2.sandbox import ImmutableSandboxedEnvironment
from jinja2.visitor import NodeTransformer

from app.alerting.receivers.errors import TemplateError
from app.alerting.receivers.news import News
from app.alerting.receivers.template_values import Escapes, values_of_news
from app.alerting.text import plain
from app.durations import format_duration, format_number, format_size, format_time
from app.errors import ConfigError, ConfigProblem

MAX_TEXT_CHARS = 100_000
"""Of one string of a template when it is filled in, and of anything on the way to it."""
MAX_TURNS = 20_000
"""Of all loops of one string."""
MAX_SECONDS = 2.0
"""For all strings of a template."""
MAX_DEPTH = 50
SUFFIX = ".j2"

_FILTERS = """
    abs capitalize count d default dictsort first float groupby int items join last length list lower max min
    reject rejectattr select selectattr sort string sum title trim truncate unique upper map
"""
_TESTS = """
    != < <= == > >= boolean defined divisibleby eq equalto even false float ge gt in integer le lessthan lower lt
    mapping ne none number odd string true undefined upper
"""
_REFUSED: tuple[type[nodes.Node], ...] = (
    nodes.Macro, nodes.CallBlock, nodes.FilterBlock, nodes.Import, nodes.FromImport, nodes.Include, nodes.Extends,
    nodes.Block, nodes.AssignBlock, nodes.Scope, nodes.ScopedEvalContextModifier, nodes.EvalContextModifier,
    nodes.OverlayScope, nodes.With,
)  # fmt: skip


@dataclass
class _Budget:
    """What is left for the strings of a template."""

    ends_s: float
    n_turns: int = MAX_TURNS

    def turn(self) -> None:
        self.n_turns -= 1
        if self.n_turns < 0:
            raise SecurityError(f"loops of more than {MAX_TURNS:,} turns")
        self.check()

    def check(self) -> None:
        if time.monotonic() > self.ends_s:
            raise SecurityError(f"more than {MAX_SECONDS:g} s")


_budget: ContextVar[_Budget] = ContextVar("template_budget")


class _Bounded(NodeTransformer):
    """Counts the turns of loops and the length of joined texts; refuses what templates may not have."""

    def generic_visit(self, node: nodes.Node, *args: Any, **kwargs: Any) -> nodes.Node:
        if isinstance(node, _REFUSED):
            raise TemplateSyntaxError(f"{type(node).__name__.lower()} is not available in templates", node.lineno)
        if isinstance(node, nodes.Dict) or (
            _is_display(node) and not all(isinstance(i, nodes.Const) for i in node.items)
        ):
            # A list of lists of lists is short to write and without end to print.
            raise TemplateSyntaxError("lists are of constants alone in templates", node.lineno)
        if isinstance(node, nodes.For) and node.recursive:
            raise TemplateSyntaxError("recursive loops are not available in templates", node.lineno)
        return super().generic_visit(node, *args, **kwargs)

    def visit_For(self, node: nodes.For) -> nodes.Node:  # noqa: N802  # as Jinja calls it
        self.generic_visit(node)
        assert isinstance(node.iter, nodes.Expr), "the parser's"
        node.iter = _filter(node.iter, "_counted")
        return node

    def visit_Concat(self, node: nodes.Concat) -> nodes.Node:  # noqa: N802  # as Jinja calls it
        self.generic_visit(node)
        return _filter(nodes.List(node.nodes, lineno=node.lineno), "_joined")

    def visit_Filter(self, node: nodes.Filter) -> nodes.Node:  # noqa: N802  # as Jinja calls it
        self.generic_visit(node)
        return _filter(node, "_bounded") if node.name in _LONGER else node


def _is_display(node: nodes.Node) -> TypeGuard[nodes.List | nodes.Tuple]:
    """A list that is written down; targets of assignments are none."""
    return isinstance(node, nodes.List) or (isinstance(node, nodes.Tuple) and node.ctx == "load")


_LONGER = frozenset({"join", "sum", "string", "list", "map"})


def _filter(node: nodes.Expr | None, name: str) -> nodes.Filter:
    lineno = 1 if node is None else node.lineno
    return nodes.Filter(node, name, [], [], None, None, lineno=lineno)


def _counted(values: Iterable[Any]) -> Iterator[Any]:
    if isinstance(values, Undefined):
        iter(values)  # raises with its name
    for value in values:
        _budget.get().turn()
        yield value


def _bounded(value: Any) -> Any:
    _budget.get().check()
    if not isinstance(value, str | int | float | list | tuple | dict) and hasattr(value, "__iter__"):
        found = []
        for item in value:
            _budget.get().turn()
            found.append(item)
        return found
    if isinstance(value, str) and len(value) > MAX_TEXT_CHARS:
        raise SecurityError(f"a text of more than {MAX_TEXT_CHARS:,} characters")
    return value


def _joined(values: list[Any]) -> str:
    return str(_bounded("".join(_text(value) for value in values)))


def _text(value: Any) -> str:
    if isinstance(value, Undefined):
        return str(value)  # raises with its name
    return str(value)


@pass_environment
def _join(made: Environment, values: Iterable[Any], d: str = "", attribute: str | int | None = None) -> str:
    """As Jinja's, which would count only what is there already."""
    item_of = None if attribute is None else make_attrgetter(made, attribute)
    between, pieces, n_chars = str(d), [], 0
    for value in _counted(values):
        piece = _text(value if item_of is None else item_of(value))
        pieces.append(piece)
        n_chars += len(piece) + len(between)
        if n_chars - len(between) > MAX_TEXT_CHARS:
            raise SecurityError(f"a text of more than {MAX_TEXT_CHARS:,} characters")
    return between.join(pieces)


def _range(*bounds: int) -> range:
    found = range(*bounds)
    if len(found) > MAX_TURNS:
        raise SecurityError(f"a range of more than {MAX_TURNS:,} numbers")
    return found


def _unit(form: Callable[[float], str]) -> Callable[[Any], str]:
    def written(value: Any) -> str:
        if isinstance(value, Undefined):
            return str(value)
        try:
            return form(float(value))
        except (TypeError, ValueError, OverflowError):
            return plain(value)

    return written


def _round(value: float, precision: int = 0) -> float:
    return round(value, max(-20, min(precision, 20)))


def _percent(value: float) -> str:
    return f"{value * 100:.3g} %"


def _number(value: float) -> str:
    return f"{int(value):,}" if value == int(value) else format_number(value, grouped=True)


class _Environment(ImmutableSandboxedEnvironment):
    intercepted_binops = frozenset({"+", "*", "**", "%"})

    def getattr(self, obj: Any, attribute: str) -> Any:
        """Of mappings their items alone: `alert.values` is what stands under this name."""
        if isinstance(obj, dict):
            return obj[attribute] if attribute in obj else self.undefined(obj=obj, name=attribute)
        return super().getattr(obj, attribute)

    def getitem(self, obj: Any, argument: Any) -> Any:
        """As getattr."""
        if isinstance(obj, dict):
            is_there = isinstance(argument, str) and argument in obj
            return obj[argument] if is_there else self.undefined(obj=obj, name=str(argument))
        return super().getitem(obj, argument)

    def is_safe_attribute(self, obj: Any, attr: str, value: Any) -> bool:  # noqa: ARG002
        """Of the loop's own alone; items of mappings are no attributes."""
        return type(obj).__name__ == "LoopContext" and attr in _OF_LOOPS

    def is_safe_callable(self, obj: Any) -> bool:
        """range, and nothing that a value brings."""
        return obj is _range

    def call_binop(self, context: Any, operator: str, left: Any, right: Any) -> Any:
        """Of numbers; texts may be added."""
        numbers = all(isinstance(side, int | float) and abs(side) < 2**64 for side in (left, right))
        texts = operator == "+" and isinstance(left, str) and isinstance(right, str)
        if operator == "**" or not (numbers or texts):
            if isinstance(left, Undefined) or isinstance(right, Undefined):
                return super().call_binop(context, operator, left, right)
            raise SecurityError(f"{operator} of {type(left).__name__} and {type(right).__name__}")
        return _bounded(super().call_binop(context, operator, left, right))


_OF_LOOPS = frozenset({"index", "index0", "revindex", "revindex0", "first", "last", "length", "depth", "depth0"})


def environment(escape: Callable[[str], str]) -> ImmutableSandboxedEnvironment:
    """The sandbox; `escape` is done to whatever leaves an expression."""

    def finalized(value: Any) -> Any:
        if value is None:
            return ""
        text = str(value)
        if len(text) > MAX_TEXT_CHARS:
            raise SecurityError(f"a text of more than {MAX_TEXT_CHARS:,} characters")
        return escape(text)

    made = _Environment(undefined=StrictUndefined, finalize=finalized, autoescape=False, optimized=False)
    made.filters = {name: made.filters[name] for name in _FILTERS.split()}
    made.filters |= {"_counted": _counted, "_bounded": _bounded, "_joined": _joined, "round": _round, "join": _join}
    made.filters |= {
        "duration": _unit(format_duration),
        "size": _unit(format_size),
        "time": _unit(format_time),
        "percent": _unit(_percent),
        "number": _unit(_number),
    }
    made.tests = {name: made.tests[name] for name in _TESTS.split()}
    made.globals = {"range": _range}
    return made


@dataclass(frozen=True)
class JinjaTemplate:
    """JSON whose strings are Jinja; equal to another with the same content for the same target."""

    content: Any
    escapes: Escapes
    texts: Mapping[str, JinjaText] = field(compare=False, repr=False, default_factory=dict)

    def filled(self, news: News) -> Any:
        """Raises TemplateError with the place in the file."""
        values = values_of_news(news)
        token = _budget.set(_Budget(time.monotonic() + MAX_SECONDS))
        try:
            return self._filled(self.content, values, "")
        finally:
            _budget.reset(token)

    def _filled(self, content: Any, values: Mapping[str, Any], place: str) -> Any:
        if isinstance(content, str):
            return self._rendered(values, place)
        if isinstance(content, list):
            return [self._filled(item, values, f"{place}[{n}]") for n, item in enumerate(content)]
        if isinstance(content, dict):
            return {name: self._filled(item, values, f"{place}.{name}".lstrip(".")) for name, item in content.items()}
        return content

    def _rendered(self, values: Mapping[str, Any], place: str) -> str:
        _budget.get().n_turns = MAX_TURNS
        pieces: list[str] = []
        n_chars = 0
        try:
            for piece in self.texts[place].generate(values):
                pieces.append(piece)
                n_chars += len(piece)
                _budget.get().check()
                if n_chars > MAX_TEXT_CHARS:
                    raise SecurityError(f"a text of more than {MAX_TEXT_CHARS:,} characters")
        except Exception as error:  # noqa: BLE001  # a boundary: filters fail as they please, MemoryError among it
            raise TemplateError(f"{place or 'the template'}: {plain(str(error) or type(error).__name__)}") from None
        return "".join(pieces)


def jinja_template(content: Any, path: object, key: str, escapes: Escapes) -> JinjaTemplate:
    """Read all strings of a JSON file; raises ConfigError with place and line of those that are no Jinja."""
    texts: dict[str, JinjaText] = {}
    environments = {escape: environment(escape) for escape in {escapes.of(""), *escapes.by_part.values()}}
    problems: list[ConfigProblem] = []

    def compile_(content: Any, place: str, depth: int) -> None:
        if depth > MAX_DEPTH:
            problems.append(ConfigProblem(key, f"parts within parts deeper than {MAX_DEPTH}", "a message"))
        elif isinstance(content, str):
            made = environments[escapes.of(place)]
            try:
                tree = _Bounded().visit(made.parse(content))
                texts[place] = JinjaText.from_code(made, made.compile(tree), made.globals)
            except TemplateSyntaxError as error:
                where = f"{place or 'the template'}, line {error.lineno}"
                problems.append(ConfigProblem(key, f"{where}: {plain(error.message)}", "Jinja that the sandbox has"))
            except (JinjaError, RecursionError, SyntaxError, ValueError) as error:
                found = f"{place or 'the template'}: {plain(error)}"
                problems.append(ConfigProblem(key, found, "Jinja that the sandbox has"))
        elif isinstance(content, list):
            for n, item in enumerate(content):
                compile_(item, f"{place}[{n}]", depth + 1)
        elif isinstance(content, dict):
            for name, item in content.items():
                compile_(item, f"{place}.{name}".lstrip("."), depth + 1)

    compile_(content, "", 0)
    if problems:
        raise ConfigError(str(path), tuple(problems))
    return JinjaTemplate(content, escapes, texts)


__all__ = ["SUFFIX", "JinjaTemplate", "environment", "jinja_template"]

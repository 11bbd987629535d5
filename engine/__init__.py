"""The complex event processing library: parse, plan and evaluate SASE+ queries over columnar events.

The names below are loaded on first use, so that those who only build events (`engine.events`) do not wait for the
compiled kernels.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from engine.admission import Refusal, Refused, RefusedEvent, admit
    from engine.baselines import BaselineKind
    from engine.compiled.fitting import fitting_events
    from engine.compiled.query import CompiledQuery, compile_query, match_type
    from engine.compiled.sharing import trend_sharing
    from engine.compiled.trend_values import TrendThreshold, every_window, trend_numbers, trend_thresholds
    from engine.kernels.compile.cache import kernels_are_compiled
    from engine.kernels.compile.portable import portable_kernels
    from engine.kernels.compile.processes import CompiledKernels
    from engine.language import ast
    from engine.language.parser import parse
    from engine.language.printer import print_query
    from engine.language.resolver import ResolvedQuery, resolve
    from engine.language.templates import Placeholder, placeholder_of
    from engine.matching.output.aggregates import aggregates_of_lists, register_aggregate
    from engine.matching.output.match_row import Binding, Expectation, MatchRow, binding_json, flat_ids
    from engine.matching.output.reading.brief_rows import bindings_digest, brief_rows
    from engine.matching.output.reading.row_json import row_from_json, row_to_json
    from engine.matching.output.reading.tables import rows_schema, rows_tables
    from engine.matching.output.rows import RowBlock, RowSink, joined_rows
    from engine.matching.protocol import Limits
    from engine.plan.distribution import Distribution, Obstacle
    from engine.reference import ReferenceMatch, ReferenceRow, reference_matches, reference_output
    from engine.reference.composition import reference_cascade
    from engine.runtime.cascade import match_id, match_id_of_json
    from engine.runtime.cold import answer_while_compiling, compile_in_background
    from engine.runtime.compiling import compiling_beside
    from engine.runtime.composition import compile_queries, query_hashes, resolve_queries, with_consumed
    from engine.runtime.engine import Engine, QueryStatistics
    from engine.runtime.row_quota import PartQuota, confidence_rank, output_order
    from engine.runtime.shedding.control import OverloadControl, Works
    from engine.runtime.shedding.event_shedder import EventStrategy
    from engine.runtime.shedding.latency_bound import latency_bound
    from engine.runtime.shedding.model import MOST_MODEL_BYTES, SheddingModel, event_utilities, run_utilities
    from engine.runtime.shedding.model_training import ModelTraining
    from engine.runtime.warm import warm_kernels
    from engine.uncertainty.existence import AtLeastOne, Method, at_least_one
    from engine.uncertainty.possibilities import Possibilities, united

_HOMES = {
    "Refusal": "engine.admission",
    "Refused": "engine.admission",
    "RefusedEvent": "engine.admission",
    "admit": "engine.admission",
    "AtLeastOne": "engine.uncertainty.existence",
    "BaselineKind": "engine.baselines",
    "CompiledKernels": "engine.kernels.compile.processes",
    "CompiledQuery": "engine.compiled.query",
    "Distribution": "engine.plan.distribution",
    "Engine": "engine.runtime.engine",
    "Limits": "engine.matching.protocol",
    "Binding": "engine.matching.output.match_row",
    "Expectation": "engine.matching.output.match_row",
    "MatchRow": "engine.matching.output.match_row",
    "Method": "engine.uncertainty.existence",
    "Obstacle": "engine.plan.distribution",
    "Placeholder": "engine.language.templates",
    "Possibilities": "engine.uncertainty.possibilities",
    "RowBlock": "engine.matching.output.rows",
    "RowSink": "engine.matching.output.rows",
    "TrendThreshold": "engine.compiled.trend_values",
    "every_window": "engine.compiled.trend_values",
    "fitting_events": "engine.compiled.fitting",
    "OverloadControl": "engine.runtime.shedding.control",
    "MOST_MODEL_BYTES": "engine.runtime.shedding.model",
    "EventStrategy": "engine.runtime.shedding.event_shedder",
    "ModelTraining": "engine.runtime.shedding.model_training",
    "SheddingModel": "engine.runtime.shedding.model",
    "event_utilities": "engine.runtime.shedding.model",
    "run_utilities": "engine.runtime.shedding.model",
    "Works": "engine.runtime.shedding.control",
    "PartQuota": "engine.runtime.row_quota",
    "confidence_rank": "engine.runtime.row_quota",
    "output_order": "engine.runtime.row_quota",
    "row_from_json": "engine.matching.output.reading.row_json",
    "row_to_json": "engine.matching.output.reading.row_json",
    "binding_json": "engine.matching.output.match_row",
    "bindings_digest": "engine.matching.output.reading.brief_rows",
    "brief_rows": "engine.matching.output.reading.brief_rows",
    "flat_ids": "engine.matching.output.match_row",
    "joined_rows": "engine.matching.output.rows",
    "QueryStatistics": "engine.runtime.engine",
    "ReferenceMatch": "engine.reference",
    "ReferenceRow": "engine.reference",
    "ResolvedQuery": "engine.language.resolver",
    "aggregates_of_lists": "engine.matching.output.aggregates",
    "answer_while_compiling": "engine.runtime.cold",
    "at_least_one": "engine.uncertainty.existence",
    "ast": "engine.language.ast",
    "compile_in_background": "engine.runtime.cold",
    "compile_queries": "engine.runtime.composition",
    "compile_query": "engine.compiled.query",
    "compiling_beside": "engine.runtime.compiling",
    "kernels_are_compiled": "engine.kernels.compile.cache",
    "latency_bound": "engine.runtime.shedding.latency_bound",
    "match_id": "engine.runtime.cascade",
    "match_id_of_json": "engine.runtime.cascade",
    "match_type": "engine.compiled.query",
    "portable_kernels": "engine.kernels.compile.portable",
    "placeholder_of": "engine.language.templates",
    "parse": "engine.language.parser",
    "print_query": "engine.language.printer",
    "query_hashes": "engine.runtime.composition",
    "reference_cascade": "engine.reference.composition",
    "reference_matches": "engine.reference",
    "reference_output": "engine.reference",
    "register_aggregate": "engine.matching.output.aggregates",
    "resolve": "engine.language.resolver",
    "resolve_queries": "engine.runtime.composition",
    "rows_schema": "engine.matching.output.reading.tables",
    "rows_tables": "engine.matching.output.reading.tables",
    "trend_numbers": "engine.compiled.trend_values",
    "trend_sharing": "engine.compiled.sharing",
    "trend_thresholds": "engine.compiled.trend_values",
    "united": "engine.uncertainty.possibilities",
    "warm_kernels": "engine.runtime.warm",
    "with_consumed": "engine.runtime.composition",
}

__all__ = [
    "MOST_MODEL_BYTES",
    "AtLeastOne",
    "BaselineKind",
    "Binding",
    "CompiledKernels",
    "CompiledQuery",
    "Distribution",
    "Engine",
    "EventStrategy",
    "Expectation",
    "Limits",
    "MatchRow",
    "Method",
    "ModelTraining",
    "Obstacle",
    "OverloadControl",
    "PartQuota",
    "Placeholder",
    "Possibilities",
    "QueryStatistics",
    "ReferenceMatch",
    "ReferenceRow",
    "Refusal",
    "Refused",
    "RefusedEvent",
    "ResolvedQuery",
    "RowBlock",
    "RowSink",
    "SheddingModel",
    "TrendThreshold",
    "Works",
    "admit",
    "aggregates_of_lists",
    "answer_while_compiling",
    "ast",
    "at_least_one",
    "binding_json",
    "bindings_digest",
    "brief_rows",
    "compile_in_background",
    "compile_queries",
    "compile_query",
    "compiling_beside",
    "confidence_rank",
    "event_utilities",
    "every_window",
    "fitting_events",
    "flat_ids",
    "joined_rows",
    "kernels_are_compiled",
    "latency_bound",
    "match_id",
    "match_id_of_json",
    "match_type",
    "output_order",
    "parse",
    "placeholder_of",
    "portable_kernels",
    "print_query",
    "query_hashes",
    "reference_cascade",
    "reference_matches",
    "reference_output",
    "register_aggregate",
    "resolve",
    "resolve_queries",
    "row_from_json",
    "row_to_json",
    "rows_schema",
    "rows_tables",
    "run_utilities",
    "trend_numbers",
    "trend_sharing",
    "trend_thresholds",
    "united",
    "warm_kernels",
    "with_consumed",
]


def __getattr__(name: str) -> Any:
    if name in _HOMES:
        home = import_module(_HOMES[name])
        found = home if name == "ast" else getattr(home, name)
        globals()[name] = found  # asked for once
        return found
    raise AttributeError(f"module 'engine' has no attribute {name!r}")

"""Skip till any match over precise and imprecise events by postponing (SASE++ section 5.1).

Pattern matching is one shared pass that stores events by what their local predicates allow them to be (early filters,
section 5.2); nothing is built until the watermark decides a last event. Then matches are constructed, or only counted,
for each pair of a first and a last event.

A last event e is decided when t_hi(e) < watermark: whatever may precede it has an earlier t_lo and is there. A trailing
negation waits for first + WITHIN. Events are dropped once nothing undecided can reach back to them.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterator, Mapping, Sequence
from dataclasses import replace

import numpy as np
import pyarrow as pa

from engine.errors import StateError, UnsupportedQueryError
from engine.events import FOREVER_MS, BoolArray, Float64Array, Int64Array
from engine.kernels.columns.partitions import BROADCAST
from engine.kernels.pairs.pairs import pairs
from engine.kernels.pairs.shared_search import PER_MATCH_EVENTS
from engine.language import ast
from engine.matching.brake import braked
from engine.matching.output.bounds import limit
from engine.matching.output.entry_work import SpelledMatches
from engine.matching.output.forms import RANK_STEP, RANKED_DIGITS
from engine.matching.output.listed import Matches
from engine.matching.output.match_row import MatchRow
from engine.matching.output.results import Results, TakesMatches
from engine.matching.output.rows import RowBlock, RowSink, first_rows, joined_rows
from engine.matching.output_watermark import longest_interval_ms, output_watermark_ms
from engine.matching.pairs.context import Context, Groups
from engine.matching.pairs.counted_rows import CountsTogether
from engine.matching.pairs.counting import Counting
from engine.matching.pairs.in_reach import PAIRS_COUNTED, PairsInReach
from engine.matching.pairs.independent import IndependentPairs
from engine.matching.pairs.listing import LISTING_TIMES, PER_MATCH, Listing, merged_sets, non_overlapping
from engine.matching.pairs.plan_arrays import compile_tables
from engine.matching.pairs.possible import PossiblePairs
from engine.matching.pairs.possible_rows import PossibleRows
from engine.matching.pairs.precise_listing import Deciding, PreciseListing, most_pairs
from engine.matching.pairs.results import matches_of, matches_of_blocks
from engine.matching.pairs.rows import ContextRows
from engine.matching.pairs.shared_listing import Parts
from engine.matching.pairs.single_kleene import SingleKleenePairs
from engine.matching.protocol import Limits
from engine.matching.stored_worth import Pair, expected_pairs
from engine.plan.evaluation import PairEvaluators
from engine.plan.sequence.independent import IndependentForm
from engine.plan.sequence.model import SequencePlan
from engine.plan.sequence.single_kleene import SingleKleeneForm
from engine.stream.columns import StreamColumns
from engine.stream.early_filter import Masks
from engine.stream.intake import Intake
from engine.stream.interner import Interner
from engine.stream.intervals import check_weights
from engine.stream.store import EventStore, MovesBack

_STATE_VERSION = 1

_EVENTS_PER_ROW = 300
"""Events of counted pairs that one step tells at most, longest matches and candidates, for each row that it may."""


class PostponedRuntime:
    """Run state of one skip_till_any_match query; implements `Runtime`, `TakesSink`, `SharesEvents` and `EndsBeginning`
    of `engine.matching.protocol`.

    LIMIT and `limits.max_rows` bound the rows of one `advance` (see `engine.matching.output.bounds.limit`); the last
    row says so. TOP k: `advance` returns those of its matches that may be among the k most confident of the stream so
    far.
    """

    def __init__(
        self,
        plan: SequencePlan,
        pairs: PairEvaluators,
        interner: Interner,
        limits: Limits | None = None,
        results: TakesMatches | None = None,
    ) -> None:
        """`pairs`: how the matches of pairs are made; `results`: what becomes of matches that are listed, None: rows
        in the plan's own output form."""
        if not plan.lists_all:
            raise UnsupportedQueryError(
                f"{plan.strategy.value} is not evaluated by postponing",
                plan.query.span,
                "skip_till_any_match",
                "use the runtime of that strategy",
            )
        self.plan = plan
        self.limits = limits or Limits()
        trailing = plan.is_trailing
        self.n_rejected = 0
        self.n_unfinished = 0
        self.n_work = 0
        self._work = self.limits.brake.account(self.limits.work_budget, LISTING_TIMES, self.limits.n_sharing)
        self._spelled = SpelledMatches(self.limits)
        self.sink: RowSink | None = None
        self._interner = interner
        self._results = results
        if results is None and not pairs.makes_rows:
            self._results = Results(plan, interner, self.limits, plan.bound_variables, trailing=trailing)
        self._pairs = pairs
        self._form = pairs.independent
        self._compiled = compile_tables(plan, interner, pairs.chains)
        self._intake = self._new_intake()
        self._independent = self._independent_pairs()
        self._watermark_ms = -FOREVER_MS
        self._is_moved = False
        self._ends_ms: dict[int, int] = {}
        self._best: list[float] = []
        self._threshold = 0.0 if plan.confidence is None else float(plan.confidence)
        whole_ends = plan.output in (ast.Output.NON_OVERLAPPING, ast.Output.SETS) and pairs.makes_rows
        self._holds_back = (2 if whole_ends else 1) if trailing else 0
        # An undecided match may have begun a window ago; what a leading negation forbids it lies a window further back.
        self._looks_back = int(trailing and plan.looks_back)

    def _new_intake(self) -> Intake:
        kleene = None if self._form is None else self._form.kleene
        return Intake(self.plan, self._interner, placed=self._form is None, kleene=kleene)

    @property
    def store(self) -> EventStore:
        """The events kept."""
        return self._intake.store

    @property
    def _masks(self) -> Masks:
        return self._intake.masks

    def keeps(self) -> Hashable | None:
        """See `engine.matching.protocol.SharesEvents`."""
        return None if self._independent is None else self._intake.meaning()

    @property
    def is_shared(self) -> bool:
        """See `engine.matching.protocol.SharesEvents`."""
        return self._intake.n_members > 1

    def share(self, other: PostponedRuntime) -> bool:
        """See `engine.matching.protocol.SharesEvents`."""
        mine, its = self._intake, other._intake
        same = self._watermark_ms == other._watermark_ms and (
            len(mine.store) == len(its.store) == 0 or mine.store.save().equals(its.store.save(), check_metadata=True)
        )
        if same and mine is not its:
            its.share(self.plan)
            self._intake = its
        return same

    @property
    def n_rows(self) -> int:
        """Events kept."""
        return len(self.store)

    @braked
    def advance(self, stream: StreamColumns, watermark_ms: int) -> Sequence[MatchRow]:
        """See `Runtime.advance`. Raises EventError for weights that do not fit their interval."""
        check_weights(stream, self.plan.types)
        start = self._intake.take_in(stream)
        if self._independent is not None and self._is_at_once:
            rows = self._decide_at_once(self._independent, start)
        else:
            context = Context(self.plan, self.store, self._masks, self._compiled)
            rows = self._decide(context, self._watermark_ms, watermark_ms, stream, start)
        self._watermark_ms = max(self._watermark_ms, watermark_ms)
        self._forget()
        return rows

    def move_back(self, by: MovesBack, most: int) -> None:
        """See `engine.matching.protocol.Movable`."""
        self._intake.move_back(by)
        self._watermark_ms = -most
        self._is_moved = True

    def begin_none_from(self, begin_ms: int) -> None:
        """See `engine.matching.protocol.EndsBeginning`."""
        self._intake.begin_none_from(begin_ms)

    def _decide_at_once(self, independent: IndependentPairs, start: int) -> Sequence[MatchRow]:
        """Rows of precise events that are selected independently: new events are decided with those before them."""
        sink = None if self.plan.limit is not None else self.sink
        most = limit(self.plan, self.limits)
        found: Iterator[RowBlock]
        if self.plan.output is not ast.Output.ALL:
            most_events = _EVENTS_PER_ROW * self.limits.max_rows if sink is None else None
            found = independent.counted(self._intake, start, most_events)
        elif sink is not None:
            found = independent.listed(self._intake, start, by_id=sink.in_listing_order)
        else:
            found = independent.listed(self._intake, start, by_id=True, most=most + 1)
        if sink is not None:
            for block in found:
                with self.limits.brake.handing_over(len(block)):
                    sink.hand_over(block)
            return []
        blocks: list[Sequence[MatchRow]] = []
        n_rows = 0
        for block in found:
            blocks.append(block)
            n_rows += len(block)
            if n_rows > most:
                break
        if independent.is_cut and n_rows <= most and n_rows:
            blocks[-1:] = [blocks[-1][:-1], [replace(blocks[-1][-1], capped=True)]]
        return first_rows(joined_rows(blocks), most)

    def _independent_pairs(self) -> IndependentPairs | None:
        return None if self._form is None else IndependentPairs(self.plan, self._form, self._compiled)

    @property
    def _n_steps(self) -> int:
        """See `postponed_pairs.pairs`."""
        steps = self.plan.steps
        return 0 if len(steps) == 1 and not steps[0].kleene else len(steps)

    @property
    def _is_at_once(self) -> bool:
        return self._independent is not None and self.store.n_imprecise == 0

    # --------------------------------------------------------------- deciding

    def _decide(
        self, context: Context, after_ms: int, before_ms: int, stream: StreamColumns, start: int
    ) -> Sequence[MatchRow]:
        n = context.n_rows
        hi = self.store.t_hi_ms[:n]
        reach_ms = self.plan.within_ms if self._holds_back else 0
        # Where intervals overlap the first event of a pair may end after its last one.
        overlap_ms = context.longest_ms if self._holds_back == 1 else 0
        ends = self._masks.ends(n) & (hi < before_ms) & (hi + reach_ms + overlap_ms >= after_ms)
        if self._is_moved and not self._holds_back:
            ends[:start] = False  # decided before, whatever their times were then
        lasts = np.flatnonzero(ends).astype(np.int64)
        firsts = Groups.of(self._masks.begin[0, :n], self.store)
        if not context.longest_ms and self._form is None and (self._results is not None or not self.plan.is_counted):
            return self._precise(context, firsts, lasts, after_ms, before_ms, stream)
        if not self.plan.is_counted or self._results is not None:  # counted pairs are paid for by their last events
            self._work.allowance_at(self.store.n_seen - 1)
        inner = Groups.stacked(self._masks.begin[1:-1, :n], self.store)
        in_reach = PairsInReach(context, firsts, *inner, self._n_steps, self._holds_back)
        possible = None
        if self.limits.possibilities and self.store.n_imprecise:
            possible = PossibleRows(context, self._threshold, self.limits.work_budget)
        if self._results is not None:
            threshold = 0.0 if self.plan.output is ast.Output.SETS else self._threshold
            listing = Listing(context, threshold, self.limits.max_listed, self._work, PER_MATCH)
            matches = self._listed(context, listing, in_reach.parts(lasts, after_ms, before_ms), possible)
            formed = self._results.take(matches, stream, before_ms, longest_ms=context.longest_ms)
            self.n_unfinished = self._results.n_unfinished
            return formed
        if not len(lasts) or not len(firsts.rows):
            return []
        rows = ContextRows(self.plan, context, possible)
        output = self.plan.output
        if self.plan.is_counted:
            most = limit(self.plan, self.limits)
            together = self._counted_together()
            parts: list[Sequence[MatchRow]] = []
            for decided in in_reach.parts(lasts, after_ms, before_ms, PAIRS_COUNTED):
                parts.append(self._counted(context, rows, together, possible, decided(), most + 1))
                if sum(map(len, parts)) > most:
                    break
            return first_rows(joined_rows(parts), most)
        threshold = 0.0 if output is ast.Output.SETS else self._threshold
        listing = Listing(context, threshold, self.limits.max_rows + 1, self._work)
        if output in (ast.Output.SETS, ast.Output.NON_OVERLAPPING):
            due = hi[lasts] + reach_ms
            lasts = lasts[(due >= after_ms) & (due < before_ms)]
            if output is ast.Output.SETS:
                found = merged_sets(listing, lasts, in_reach.parts, self._threshold)
            else:
                found = list(non_overlapping(listing, lasts, in_reach.of, self._ends_ms))
        elif self.plan.negations or (possible is not None and output is not ast.Output.TOP):
            found = listing.matches(in_reach.parts(lasts, after_ms, before_ms))
        else:
            return self._columns(listing, in_reach.parts(lasts, after_ms, before_ms))
        ordered = rows.of_matches(found)
        if output is ast.Output.TOP:
            ordered = self._top(ordered)
        kept = rows.limited(ordered, self.limits, listing.unfinished)
        self.n_unfinished += listing.unfinished and not kept  # else the last row says so
        return kept

    # ---------------------------------------------------------- precise events

    def _precise(
        self,
        context: Context,
        firsts: Groups,
        lasts: Int64Array,
        after_ms: int,
        before_ms: int,
        stream: StreamColumns,
    ) -> Sequence[MatchRow]:
        """The rows of listed matches where no kept event is imprecise."""
        results, plan = self._results, self.plan
        most = self.limits.max_listed if results is not None else limit(plan, self.limits)
        is_top = results is None and plan.output is ast.Output.TOP
        if is_top and not plan.ties_by_partition:
            most = (plan.limit or 1) - 1  # each is as sure as the others: the first ones are the best
        longest_only = results is None and plan.output is ast.Output.NON_OVERLAPPING
        per_match = 0 if results is None else PER_MATCH
        listing = PreciseListing(
            context, most + 1, self._work, per_match, per_match // PER_MATCH_EVENTS, longest_only, self._ends_ms
        )
        block = listing.block(self._deciding(context, firsts, lasts, after_ms, before_ms))
        if results is not None:
            in_order = not plan.ties_by_partition
            matches = matches_of_blocks(
                context, [block], None, unfinished=listing.is_full, in_order=in_order, cut=listing.cut
            )
            formed = results.take(matches, stream, before_ms)
            self.n_unfinished = results.n_unfinished
            return formed
        self.n_unfinished += len(listing.cut_rows)
        if is_top:
            return first_rows(self._top(list(block)), limit(plan, self.limits))
        return first_rows(joined_rows([block]), most)

    def _deciding(self, context: Context, firsts: Groups, lasts: Int64Array, after_ms: int, before_ms: int) -> Deciding:
        """The events whose matches are known at this watermark."""
        store, within_ms, t = self.store, self.plan.within_ms, self.store.t_lo_ms
        by_first = self._holds_back == 1
        if self._holds_back == 2:
            due = t[lasts] + within_ms
            lasts = lasts[(due >= after_ms) & (due < before_ms)]
            after_ms, before_ms = -(2**62), 2**63 - 1
        nothing = np.empty(0, np.int64), np.empty((0, len(firsts.starts)), np.int64)

        def pairs_of(firsts: Groups, lasts: Int64Array) -> Int64Array:
            found: Int64Array = pairs(
                context.events, lasts, store.partition, firsts.rows, firsts.starts, *nothing, within_ms, 0,
                self._n_steps, self._holds_back, after_ms, before_ms,
            )  # fmt: skip
            return found

        if not by_first:
            n_pairs = most_pairs(lasts, t, store.partition, firsts, -within_ms if self._n_steps else 0, 0)

            def have_firsts(rows: Int64Array) -> BoolArray:
                is_due = (t[rows] >= after_ms) & (t[rows] < before_ms)
                return is_due & self._surely_pair(context, rows, firsts, by_first=False)

            return Deciding(lasts, n_pairs, lambda rows: pairs_of(firsts, rows), have_firsts)
        deadline_ms = t[firsts.rows] + within_ms
        due_rows = np.sort(firsts.rows[(deadline_ms >= after_ms) & (deadline_ms < before_ms)])
        mask = np.zeros(context.n_rows, np.bool_)

        def of_firsts(rows: Int64Array) -> Int64Array:
            mask[:] = False
            mask[rows] = True
            reached = (t[lasts] >= t[rows].min()) & (t[lasts] <= t[rows].max() + within_ms)
            return pairs_of(Groups.of(mask, store), lasts[reached])

        ends = Groups.of(self._masks.ends(context.n_rows), store)
        n_pairs = most_pairs(due_rows, t, store.partition, ends, 0, within_ms if self._n_steps else 0)

        def have_lasts(rows: Int64Array) -> BoolArray:
            return self._surely_pair(context, rows, ends, by_first=True)

        return Deciding(due_rows, n_pairs, of_firsts, have_lasts, by_first=True)

    def _surely_pair(self, context: Context, rows: Int64Array, others: Groups, *, by_first: bool) -> BoolArray:
        """Whether precise rows of one partition have a last event among the others (`by_first`), or a first one."""
        store, within_ms = self.store, self.plan.within_ms
        times, t = store.t_lo_ms[: context.n_rows], store.t_lo_ms[rows]
        is_strict = context.events.strict
        if by_first:
            low = np.searchsorted(times, t, side="right") if is_strict else rows + 1
            high = np.searchsorted(times, t + within_ms, side="right")
        else:
            low = np.searchsorted(times, t - within_ms)
            high = np.searchsorted(times, t) if is_strict else rows
        own = store.partition[rows]
        found: BoolArray = np.isin(rows, others.rows) if self._n_steps <= 1 else np.zeros(len(rows), np.bool_)
        if self._n_steps:
            found |= (others.n_within(own, low, high) + others.n_within(np.full_like(own, BROADCAST), low, high)) > 0
        found &= own != BROADCAST
        return found

    # -------------------------------------------------------- imprecise events

    def _listed(self, context: Context, listing: Listing, decided: Parts, possible: PossibleRows | None) -> Matches:
        """What selections and output forms over listed matches take."""
        if self.plan.negations or possible is not None:
            found = listing.matches(decided)
            return matches_of(context, found, unfinished=listing.unfinished, possible=possible)
        blocks = listing.blocks(decided)
        in_order = not self.plan.ties_by_partition
        return matches_of_blocks(context, blocks, self._spelled, unfinished=listing.unfinished, in_order=in_order)

    def _columns(self, listing: Listing, decided: Parts) -> Sequence[MatchRow]:
        """OUTPUT ALL and TOP without a row per match."""
        most = limit(self.plan, self.limits)
        if self.plan.output is ast.Output.TOP:
            k = self.plan.limit or 1
            least = self._best[-1] - RANK_STEP if len(self._best) == k else 0.0  # an equal one may be listed before it
            n = most if self.plan.ties_by_partition else k
            kept = first_rows(self._top(list(joined_rows(listing.best(decided, n, least)))), most)
        else:
            listing.max_matches = most + 1
            kept = first_rows(joined_rows(listing.blocks(decided)), most)
        if listing.unfinished and len(kept):
            kept = joined_rows([kept[:-1], [replace(kept[-1], capped=True)]])
        self.n_unfinished += listing.unfinished and not len(kept)  # else the last row says so
        return kept

    def _counted_together(self) -> CountsTogether | None:
        """What counts the pairs of a step together, as it was decided."""
        found = self._pairs.together
        match None if found is None else found.form:
            case IndependentForm() as form:
                return PossiblePairs(self.plan, form, self.limits.work_budget, self._work)
            case SingleKleeneForm() as form:
                return SingleKleenePairs(self.plan, form, self._threshold, self._work)
        return None

    def _counted(
        self,
        context: Context,
        rows: ContextRows,
        together: CountsTogether | None,
        possible: PossibleRows | None,
        decided: Int64Array,
        most: int,
    ) -> Sequence[MatchRow]:
        """The first `most` rows of pairs, which stand by their last event."""
        numbers = np.arange(len(decided))
        if together is None:
            return [row for _, row in self._one_by_one(context, rows, decided, numbers, most)]
        collapsed = self.plan.output is ast.Output.COLLAPSED
        block, others, n_cut = together.counted(context, decided, most, collapsed=collapsed)
        self.n_unfinished += n_cut
        if not len(others) and possible is None:
            return block.compact()[:most]
        numbered = list(zip(block.order[:most].tolist(), block[:most], strict=True))
        if possible is not None:
            numbered = [(k, replace(row, possible=possible.of_pair(block.counted(context, k)))) for k, row in numbered]
        numbered += self._one_by_one(context, rows, decided, others, most)
        return [row for _, row in sorted(numbered, key=lambda item: item[0])][:most]

    def _one_by_one(
        self, context: Context, rows: ContextRows, decided: Int64Array, numbers: Int64Array, most: int
    ) -> list[tuple[int, MatchRow]]:
        """The rows of those pairs that have matches, by their numbers: the first `most`."""
        collapsed = self.plan.output is ast.Output.COLLAPSED
        counting = Counting(
            context, self._pairs, self._threshold, self.limits.work_budget, self._work, with_candidates=collapsed
        )
        result: list[tuple[int, MatchRow]] = []
        for number, counted in counting.of_pairs(decided[numbers], most):
            result.append((int(numbers[number]), rows.of_pair(counted, collapsed)))
        self.n_unfinished += counting.n_unfinished
        self.n_work += counting.n_work
        return result

    def _top(self, found: list[MatchRow]) -> list[MatchRow]:
        """The matches that are among the k most confident of the step, and may be of the stream so far, most confident
        first, at a tie the first listed."""
        k = self.plan.limit or 1
        ranked = sorted(found, key=lambda row: -round(row.confidence, RANKED_DIGITS))
        if not self.plan.ties_by_partition:
            ranked = ranked[:k]
        self._best = sorted([*self._best, *(row.confidence for row in ranked[:k])], reverse=True)[:k]
        least = self._best[-1] - RANK_STEP if self._best else 0.0
        return [row for row in ranked if row.confidence >= least]

    # -------------------------------------------------------------- retention

    def _forget(self) -> None:
        """Drop the rows that no undecided or future match can contain, or be denied by."""
        intake, watermark_ms = self._intake, self._watermark_ms
        n = len(intake.store)
        if intake.n_members > 1 or n == 0:
            intake.watermark_ms = watermark_ms  # the others may still need what is there
            return
        if intake.forgets_later(watermark_ms):
            return
        if self._holds_back:
            longest_ms = int((intake.store.t_hi_ms[:n] - intake.store.t_lo_ms[:n]).max())
            earliest_ms = watermark_ms - longest_ms - self.plan.within_ms * (self._holds_back - 1 + self._looks_back)
        else:
            earliest_ms = intake.earliest_ms(watermark_ms)
        self._renumber(intake.forget(earliest_ms, watermark_ms))

    def _renumber(self, partitions: Int64Array | None) -> None:
        """Partitions have other numbers; None: they have not."""
        if partitions is not None:
            self._ends_ms = {int(partitions[p]): end for p, end in self._ends_ms.items() if partitions[p] >= 0}

    # --------------------------------------------------------------- shedding

    @property
    def stored(self) -> object:
        """See `engine.matching.shedding.DropsStored`."""
        return self._intake

    @property
    def n_stored(self) -> int:
        """See `engine.matching.shedding.DropsStored`."""
        t_lo_ms = self.store.t_lo_ms[: len(self.store)]
        return int(np.count_nonzero(t_lo_ms >= self._watermark_ms - self._intake.within_ms))

    def stored_worth(self, now_ms: int) -> Float64Array:
        """See `engine.matching.shedding.DropsStored`."""
        n = len(self.store)
        pair = Pair(self._masks.begin[0, :n], self._masks.ends(n))
        return expected_pairs(self.store, [pair], self._masks.middle(n), self._intake.within_ms, now_ms)

    def drop_stored(self, rows: Int64Array) -> None:
        """See `engine.matching.shedding.DropsStored`."""
        self._renumber(self._intake.drop(rows))

    # ------------------------------------------------------------------ state

    def output_watermark_ms(self, watermark_ms: int) -> int:
        """See `Runtime.output_watermark_ms`."""
        output_ms = output_watermark_ms(
            longest_interval_ms(self.store), watermark_ms, self.plan.within_ms if self._holds_back else 0
        )
        return output_ms if self._results is None else self._results.buffered_from_ms(output_ms)

    def save(self) -> dict[str, pa.Table]:
        """Tables "events", "ends" (row of a partition, its last end: NON_OVERLAPPING) and "best" (TOP)."""
        n = len(self.store)
        some_row = {int(p): row for row, p in enumerate(self.store.partition[:n])}
        ends = {some_row[p]: end for p, end in self._ends_ms.items() if p in some_row}
        meta = {
            "version": str(_STATE_VERSION),
            "watermark_ms": str(self._watermark_ms),
            "work": self._work.save(),
            "spelled": self._spelled.account.save(),
        }
        return {
            "events": self.store.save(),
            "ends": pa.table(
                {"row": pa.array(list(ends), pa.int64()), "end_ms": pa.array(list(ends.values()), pa.int64())}
            ).replace_schema_metadata(meta),
            "best": pa.table({"confidence": pa.array(self._best, pa.float64())}),
            **({} if self._results is None else self._results.save()),
        }

    def restore(self, state: Mapping[str, pa.Table]) -> None:
        """Take over what `save` returned; raises StateError when parts are missing or of another version."""
        if missing := {"events", "ends", "best"} - set(state):
            raise StateError(f"saved state of {self.plan.name} lacks {sorted(missing)}")
        meta: Mapping[bytes, bytes] = state["ends"].schema.metadata or {}
        if meta.get(b"version") != str(_STATE_VERSION).encode():
            raise StateError(
                f"saved state of {self.plan.name} has version {meta.get(b'version')!r}, expected {_STATE_VERSION}"
            )
        self._intake = self._new_intake()
        self._intake.restore(state["events"])
        self._compiled = compile_tables(self.plan, self._interner, self._pairs.chains)
        self._independent = self._independent_pairs()
        self._watermark_ms = int(meta[b"watermark_ms"])
        if b"work" in meta:  # states of before had no account
            self._work.restore(meta[b"work"].decode())
        if b"spelled" in meta:
            self._spelled.account.restore(meta[b"spelled"].decode())
        ends = zip(state["ends"].column("row").to_pylist(), state["ends"].column("end_ms").to_pylist(), strict=True)
        self._ends_ms = {int(self.store.partition[row]): end for row, end in ends}
        self._best = state["best"].column("confidence").to_pylist()
        if self._results is not None:
            self._results.restore(state)


__all__ = ["PostponedRuntime"]

"""The partitions of a keyed query divided among threads.

Kernels, and most of what NumPy and Arrow do, run without the interpreter's lock. Each shard is a whole runtime with
the partitions whose keys hash to it; events of types without the key go to all. Nothing is shared between shards but
the decoded columns of a batch.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Future
from functools import partial

import pyarrow as pa

from engine.errors import StateError
from engine.events import AttributeType
from engine.matching.output.match_row import MatchRow
from engine.matching.output.rows import joined_rows
from engine.matching.protocol import Runtime
from engine.parallel.divided import Divided
from engine.plan.model import Plan
from engine.stream.by_key import begin_shares, keys_of, shares_of
from engine.stream.columns import StreamColumns


class ShardedRuntime(Divided):
    """Run state of one query in shards.

    Rows of one `advance` come shard by shard, in each in the order of its runtime. What is saved says how many shards
    there are: a query goes on with so many, in however many threads.
    """

    def __init__(self, plan: Plan, make: Callable[[], Runtime], n_shards: int) -> None:
        self.plan = plan
        self._make = make
        self._shards = [make() for _ in range(n_shards)]
        self._kinds: Mapping[str, AttributeType] = {name: plan.attribute_types[name] for name in plan.key}

    @property
    def runtimes(self) -> list[Runtime]:
        """See `Divided`: those of the shards."""
        return list(self._shards)

    @property
    def n_rejected(self) -> int:
        """See `Runtime`."""
        return sum(shard.n_rejected for shard in self._shards)

    @property
    def n_unfinished(self) -> int:
        """See `Runtime`."""
        return sum(shard.n_unfinished for shard in self._shards)

    def advance(self, stream: StreamColumns, watermark_ms: int) -> Sequence[MatchRow]:
        """See `Divided`."""
        return joined_rows([advance() for advance in self.parts(stream, watermark_ms)])

    def parts(self, stream: StreamColumns, watermark_ms: int) -> list[Callable[[], Sequence[MatchRow]]]:
        """See `Divided`: shard by shard."""
        n_shards = len(self._shards)
        if n_shards > 1:  # what every share begins with is made before one has to wait for another
            _ = keys_of(stream, self.plan.key, self._kinds), stream.is_precise
            if not stream.begun:  # else the calling thread divides at once, as the others do already
                _ = stream.type_texts

        def advance(number: int) -> Sequence[MatchRow]:
            share = shares_of(stream, self.plan.key, self._kinds, number, n_shards)
            return self._shards[number].advance(share, watermark_ms)

        if n_shards == 1:
            return [partial(self._shards[0].advance, stream, watermark_ms)]
        return [partial(advance, number) for number in range(n_shards)]

    def divide_ahead(self, stream: StreamColumns, submit: Callable[[Callable[[], object]], Future[object]]) -> None:
        """See `Divided`."""
        if len(self._shards) > 1:
            begin_shares(stream, self.plan.key, self._kinds, len(self._shards), submit)

    def output_watermark_ms(self, watermark_ms: int) -> int:
        """See `Runtime.output_watermark_ms`."""
        return min(shard.output_watermark_ms(watermark_ms) for shard in self._shards)

    def save(self) -> dict[str, pa.Table]:
        """The parts of each shard as "shard.NUMBER.PART", and their number."""
        state = {f"shard.{n}.{part}": t for n, shard in enumerate(self._shards) for part, t in shard.save().items()}
        return {**state, "shards": pa.table({"n": pa.array([len(self._shards)], pa.int64())})}

    def restore(self, state: Mapping[str, pa.Table]) -> None:
        """Take over what `save`, or the query's runtime without shards, returned."""
        if "shards" not in state:
            self._shards = [self._make()]
            self._shards[0].restore(state)
            return
        n_shards = state["shards"].column("n")[0].as_py()
        self._shards = [self._make() for _ in range(n_shards)]
        for number, shard in enumerate(self._shards):
            start = f"shard.{number}."
            parts = {name.removeprefix(start): table for name, table in state.items() if name.startswith(start)}
            if not parts:
                raise StateError(f"saved state of {self.plan.name} lacks shard {number} of {n_shards}")
            shard.restore(parts)


__all__ = ["ShardedRuntime"]

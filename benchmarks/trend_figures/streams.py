"""Streams after GRETA's three (section 10.1), each as columns and as a batch of events; all from seeds.

The NYSE and Linear Road data of the paper are not to be had. Prices here go around the base of their company (a mean
reverting walk, standard deviation 2 % of the base), so that how many later prices are X times as high follows from X
alone: the paper's variations reach from few hundreds of trends to trillions. Speeds are uniform, so that the share of
pairs that an edge predicate admits is known in closed form.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import numpy.typing as npt
from numba import njit

from engine.events import AttributeType, EventBatch, EventSchema

SCHEMA = EventSchema.of(
    {
        "M": {"key": AttributeType.INT, "value": AttributeType.FLOAT, "summed": AttributeType.INT},
        "N": {"key": AttributeType.INT},
    }
)
"""M: transactions (company, price, volume), position reports (vehicle, speed, position) or measurements (mapper, load,
cpu). N: what is negated, a halt of the company's trade."""

_REVERSION, _DEVIATION = 0.9, 0.02


@njit
def _walk(noise: Any) -> Any:
    """x[k] = _REVERSION * x[k - 1] + noise[k]."""
    for k in range(1, len(noise)):
        noise[k] += _REVERSION * noise[k - 1]
    return noise


@dataclass(frozen=True)
class Stream:
    """n events in order of time: t_s, key, summed int64 (n,), value float64 (n,), is_negated bool (n,). Keys are
    0..n_keys-1."""

    t_s: npt.NDArray[np.int64]
    key: npt.NDArray[np.int64]
    value: npt.NDArray[np.float64]
    summed: npt.NDArray[np.int64]
    is_negated: npt.NDArray[np.bool_]
    n_keys: int

    def batch(self, begin: int, end: int) -> EventBatch:
        """The events begin..end-1."""
        own = slice(begin, end)
        t_ms, negated = 1 + 1_000 * self.t_s[own], self.is_negated[own]
        return EventBatch.from_columns(
            {
                "event_id": [str(k) for k in range(begin, end)],
                "type": np.where(negated, "N", "M").tolist(),
                "t_lo_ms": t_ms,
                "t_hi_ms": t_ms,
                "source_rank": np.zeros(end - begin, np.int64),
                "source_seq": np.arange(begin, end),
                "key": self.key[own],
                "value": [
                    None if left_out else x for x, left_out in zip(self.value[own].tolist(), negated, strict=True)
                ],
                "summed": [
                    None if left_out else x for x, left_out in zip(self.summed[own].tolist(), negated, strict=True)
                ],
            },
            SCHEMA,
        )


def stock(n: int, n_companies: int = 10, per_s: int = 100, halts: int = 0, seed: int = 1) -> Stream:
    """n transactions, `per_s` in a second; `halts` of each company's events, spread over the last nine tenths of the
    stream, are halts instead."""
    random = np.random.default_rng(seed)
    company = random.integers(0, n_companies, n)
    price = np.empty(n)
    is_halt = np.zeros(n, np.bool_)
    for number in range(n_companies):
        own = np.flatnonzero(company == number)
        noise = random.normal(0.0, _DEVIATION * np.sqrt(1 - _REVERSION**2), len(own))
        price[own] = 10.0 * (1 + number) * np.exp(_walk(noise))
        if halts:
            is_halt[random.choice(own[len(own) // 10 :], min(halts, len(own) // 2), replace=False)] = True
    return Stream(np.arange(n) // per_s, company, price, random.integers(1, 1_000, n), is_halt, n_companies)


def positions(n: int, n_vehicles: int, seed: int = 1) -> Stream:
    """n position reports of vehicles, whose rate rises linearly to 4,000 in a second; speeds uniform over 0..100."""
    random = np.random.default_rng(seed)
    # The rate after t seconds is 4,000 t / end, so that event number k comes at end * sqrt(k / n).
    end_s = n / 2_000
    t_s = (end_s * np.sqrt(np.arange(n) / n)).astype(np.int64)
    vehicle = random.integers(0, n_vehicles, n)
    return Stream(
        t_s, vehicle, 100 * random.random(n), random.integers(0, 10_000, n), np.zeros(n, np.bool_), n_vehicles
    )


def cluster(n: int, n_mappers: int, seed: int = 1) -> Stream:
    """n measurements, 3,000 in a second: Poisson load (100), uniform cpu (table 2)."""
    random = np.random.default_rng(seed)
    mapper = random.integers(0, n_mappers, n)
    load = random.poisson(100, n).astype(np.float64)
    return Stream(np.arange(n) // 3_000, mapper, load, random.integers(0, 1_001, n), np.zeros(n, np.bool_), n_mappers)


def one_by_one(n: int) -> Stream:
    """n measurements of one key, a second apart."""
    return replace(cluster(n, 1), t_s=np.arange(n))


__all__ = ["SCHEMA", "Stream", "cluster", "one_by_one", "positions", "stock"]

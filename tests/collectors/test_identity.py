"""Ids are stable, and distinct for what is distinct."""

from __future__ import annotations

from hashlib import blake2b

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from collectors.identity import SAMPLE_BYTES, SeriesIdentity, lifecycle_id, pack_samples, record_id

FIELDS = st.lists(
    st.one_of(st.text(max_size=4), st.integers(-3, 3), st.sampled_from([0.0, 1.0, 2.5]), st.none()), max_size=4
).map(tuple)


def test_lifecycle_id_is_blake2b_of_type_and_subject() -> None:
    # Another encoding would make every stored event a new one.
    assert lifecycle_id("JobStart", "job_1_2") == blake2b(b"s8:JobStarts7:job_1_2", digest_size=16).hexdigest()


def test_types_and_subjects_tell_ids_apart() -> None:
    names = [lifecycle_id(kind, job) for kind in ("JobStart", "JobEnd") for job in ("job_1_1", "job_1_11")]
    assert len(set(names)) == 4
    assert all(len(name) == 32 and int(name, 16) >= 0 for name in names)


@given(FIELDS, FIELDS)
def test_no_two_records_share_an_id(left: tuple[object, ...], right: tuple[object, ...]) -> None:
    same = record_id(("h",), "T", 5, left, 0) == record_id(("h",), "T", 5, right, 0)  # type: ignore[arg-type]
    assert same == (left == right and [type(x) for x in left] == [type(x) for x in right])


def test_numbers_and_texts_that_look_alike_differ() -> None:
    assert len({record_id((), "T", 5, (value,), 0) for value in (1, 1.0, "1", None, "")}) == 5


def test_ordinal_tells_identical_records_apart() -> None:
    assert record_id(("h",), "T", 5, ("x",), 0) != record_id(("h",), "T", 5, ("x",), 1)


def test_text_that_is_not_unicode_has_an_id() -> None:
    assert record_id(("h\udcff",), "T", 5, (), 0) != record_id(("h",), "T", 5, (), 0)


def test_sample_ids_depend_on_series_time_and_value_alone() -> None:
    t_ms, values = np.array([1_000, 2_000]), np.array([0.5, -0.0])
    packed = pack_samples(t_ms, values)
    series = SeriesIdentity(("ganglia", "c", "h", "m"), "Metric")
    ids = [series.id_of(packed[i * SAMPLE_BYTES : (i + 1) * SAMPLE_BYTES]) for i in range(2)]
    alone = pack_samples(np.array([2_000]), np.array([0.0]))
    assert ids[1] == SeriesIdentity(("ganglia", "c", "h", "m"), "Metric").id_of(alone)  # minus zero is zero
    assert len({*ids, SeriesIdentity(("ganglia", "c", "h2", "m"), "Metric").id_of(alone)}) == 3

"""Where the stream's events come from: a folder in which files appear, or Kafka; and heartbeats beside them.

Each gives rows with the columns of the store's events, `MALFORMED` (what is wrong with a record that is no event) and
`EVENT_TIME`, whose greatest value so far, less the lateness, is the stream's watermark.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as sf
from pyspark.sql.types import StringType, StructField, StructType

from engine.events import HEADER
from spark_jobs.event_store.schema import EVENTS
from spark_jobs.stream.kafka import KafkaInput, kafka_records
from spark_jobs.stream.packs import EVENT_TIME, MALFORMED

_CORRUPT = "__corrupt"
_PLACE = "__place"
_SHOWN_CHARS = 200
_NO_OBJECT = "no JSON object in UTF-8 with these columns: "
_NEEDED = ("event_id", "type", "t_lo_ms")

FileFormat = Literal["parquet", "jsonl"]


@dataclass(frozen=True)
class FolderInput:
    """Files that appear in a folder, each whole at once (written elsewhere and renamed), and never change."""

    url: str
    format: FileFormat
    max_files: int | None = None
    """Per micro-batch; None: all that are there."""
    skip_damaged: bool = False
    """Leave out files that cannot be read, or that are gone since they were listed; else they end the stream."""

    def describe(self) -> dict[str, object]:
        """What must not change between two runs on one checkpoint."""
        return {"folder": self.url, "format": self.format}


def read_events(spark: SparkSession, source: FolderInput | KafkaInput, columns: StructType = EVENTS) -> DataFrame:
    """The records of a source, as these columns; raises SparkJobError when Spark cannot read from it."""
    return _folder(spark, source, columns) if isinstance(source, FolderInput) else _kafka(spark, source, columns)


def with_event_time(records: DataFrame, heartbeats: DataFrame | None, lateness_ms: int, max_ahead_ms: int) -> DataFrame:
    """Records and heartbeats as one stream with a watermark.

    An event that claims to begin more than `max_ahead_ms` after the present takes part, but does not move the
    watermark: one wrong clock would make everybody else's events late.
    """
    present_ms = sf.unix_millis(sf.current_timestamp())
    is_told = sf.col("t_lo_ms").between(sf.lit(0), present_ms + sf.lit(max_ahead_ms)) & sf.col(MALFORMED).isNull()
    timed = records.withColumn(
        EVENT_TIME, sf.timestamp_millis(sf.when(is_told, sf.col("t_lo_ms")).otherwise(sf.lit(0)))
    )
    if heartbeats is not None:
        timed = timed.unionByName(heartbeats)
    return timed.withWatermark(EVENT_TIME, f"{lateness_ms} milliseconds")


HEARTBEAT = StructType([StructField("event_time_ms", EVENTS["t_lo_ms"].dataType)])


def read_heartbeats(spark: SparkSession, folder: str, columns: StructType = EVENTS) -> DataFrame:
    """The files that `stream_idle` leaves there, removed once they are in; they have a time and nothing else."""
    told = spark.readStream.schema(HEARTBEAT).option("cleanSource", "delete").json(folder)
    nothing = [sf.lit(None).cast(column.dataType).alias(column.name) for column in columns]
    malformed = sf.lit(None).cast(StringType()).alias(MALFORMED)
    return told.select(*nothing, malformed, sf.timestamp_millis("event_time_ms").alias(EVENT_TIME))


def _folder(spark: SparkSession, source: FolderInput, columns: StructType) -> DataFrame:
    # Files with older times than others must not be taken for old news.
    reader = spark.readStream.option("maxFileAge", "36500d")
    if source.max_files is not None:
        reader = reader.option("maxFilesPerTrigger", source.max_files)
    if source.skip_damaged:
        reader = reader.option("ignoreCorruptFiles", "true").option("ignoreMissingFiles", "true")
    place = sf.col("_metadata.file_path").alias(_PLACE)
    if source.format == "parquet":
        rows = reader.schema(columns).parquet(source.url)
        return _checked(rows.select("*", place, sf.lit(None).cast(StringType()).alias(_CORRUPT)), columns)
    with_corrupt = StructType([*columns.fields, StructField(_CORRUPT, StringType())])
    reader = reader.option("mode", "PERMISSIVE").option("columnNameOfCorruptRecord", _CORRUPT)
    return _checked(reader.schema(with_corrupt).json(source.url).select("*", place), columns)


def _kafka(spark: SparkSession, source: KafkaInput, columns: StructType) -> DataFrame:
    records = kafka_records(spark, source)
    with_corrupt = StructType([*columns.fields, StructField(_CORRUPT, StringType())])
    options = {"mode": "PERMISSIVE", "columnNameOfCorruptRecord": _CORRUPT}
    raw = sf.col("value").cast(StringType())
    text = sf.make_valid_utf8(raw)
    event = sf.from_json(text, with_corrupt, options).alias("event")
    damaged = sf.when(~sf.is_valid_utf8(raw), text).alias("damaged")
    place = sf.concat_ws("/", "topic", sf.col("partition").cast(StringType()), sf.col("offset").cast(StringType()))
    parsed = records.select(event, damaged, place.alias(_PLACE)).select("event.*", "damaged", _PLACE)
    return _checked(parsed.withColumn(_CORRUPT, sf.coalesce("damaged", _CORRUPT)).drop("damaged"), columns)


def _checked(rows: DataFrame, wanted: StructType) -> DataFrame:
    """Columns that may be left out are filled in; what is no event says why."""
    found = sf.when(
        sf.col(_CORRUPT).isNotNull(),
        sf.concat(sf.lit(_NO_OBJECT), _shown(sf.col(_CORRUPT))),
    )
    for name in _NEEDED:
        found = found.when(sf.col(name).isNull(), sf.lit(f"{name} is missing"))
    malformed = sf.when(found.isNotNull(), sf.concat_ws(": ", sf.col(_PLACE), found)).alias(MALFORMED)
    defaults = {"t_hi_ms": sf.col("t_lo_ms"), "source_rank": sf.lit(0), "source_seq": sf.lit(0)}
    columns = [
        sf.coalesce(sf.col(column.name), defaults[column.name]).cast(column.dataType).alias(column.name)
        if column.name in defaults
        else sf.col(column.name)
        for column in wanted
    ]
    return rows.select(*columns, malformed)


def _shown(text: Column) -> Column:
    return sf.substring(sf.make_valid_utf8(text), 1, _SHOWN_CHARS)


assert set(_NEEDED) <= set(HEADER.names)

__all__ = [
    "HEARTBEAT",
    "FileFormat",
    "FolderInput",
    "KafkaInput",
    "read_events",
    "read_heartbeats",
    "with_event_time",
]

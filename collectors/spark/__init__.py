"""Event logs of Spark applications."""

STAGE_TYPES = frozenset({"SparkStageStart", "SparkStageEnd", "SparkTaskEnd"})
"""What is told of a stage attempt: whole, once it is over."""

__all__ = ["STAGE_TYPES"]

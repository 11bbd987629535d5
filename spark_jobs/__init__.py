"""The data pipeline on Spark: history, and more nodes than one machine can serve."""

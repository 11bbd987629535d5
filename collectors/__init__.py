"""Collectors: one module per source; each turns what its source writes into columnar event batches, nothing else."""

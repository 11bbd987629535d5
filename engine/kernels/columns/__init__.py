"""Kernels over columns of a batch: decoding, keys, partitions, selection, sums in order."""

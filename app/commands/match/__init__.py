"""`clustercep match` and `clustercep explain`: their options, how rows are printed and written, the oracle."""

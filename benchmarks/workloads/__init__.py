"""Events, logs and stores of any size, all from seeds, that several benchmarks read."""

"""Jobs, the faults that are injected while they run, and the order in which all of it happens."""

"""Load shedding around the engine: what was dropped, and the file of what was learned of it."""

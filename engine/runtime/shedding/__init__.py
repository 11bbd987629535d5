"""Load shedding in an engine: what is observed and dropped in its runtimes, and when."""

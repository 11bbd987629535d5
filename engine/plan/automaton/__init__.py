"""The plan of a pattern that is no plain sequence: states, edges, where each condition is decided."""

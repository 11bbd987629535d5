"""The run-based NFAb: both contiguities and skip till next match (SASE+ sections 3 to 5)."""

"""Windows of n events (WITHIN n EVENTS), also those that open at an event (OPEN ON)."""

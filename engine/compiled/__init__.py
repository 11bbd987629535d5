"""From a query's text to what an engine runs, and how its events can be divided."""

"""Jobs of the event store judged by the heuristics of app.heuristics."""

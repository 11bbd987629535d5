"""From a resolved query to its plan: what is decided before the first event, as data."""

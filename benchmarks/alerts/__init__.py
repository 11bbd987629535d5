"""Many alerts: raised, told in groups, listed by the API."""

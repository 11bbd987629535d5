"""How trends are aggregated: templates (GRETA, Algorithms 1 and 3), where predicates go, what is propagated."""

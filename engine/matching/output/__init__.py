"""From matches to rows: output forms, selection, consumption, windows of the query, bindings, aggregates."""

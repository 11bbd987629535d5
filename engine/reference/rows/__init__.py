"""From matches to rows: windows, selection, output forms, the values of RETURN."""

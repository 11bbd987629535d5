"""Confidence of sequences of imprecise events by dynamic programming (SASE++ section 4; DESIGN 4)."""

"""Everything that is no plain sequence: nested groups, AND, negated patterns, under all strategies."""

"""The plan of a plain SEQ: placement of predicates, and the forms that have a quicker evaluation."""

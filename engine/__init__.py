"""The complex event processing library: parse, plan and evaluate SASE+ queries over columnar events."""

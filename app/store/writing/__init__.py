"""Writing to the store, divided by what is written; `Writer` is one transaction."""

"""What samples of all sources have in common: normal names and units, and the load that is derived from them."""

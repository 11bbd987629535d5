"""Pages of the dashboard over a large store, and the statements behind them."""

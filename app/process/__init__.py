"""The process around the live path: supervision, threads, signals, locks, reload, metrics, endpoints."""

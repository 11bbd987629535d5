"""Campaigns against the running program: what is promised under faults (docs/reliability.md), tried at length."""

"""Logs of containers and daemons, read while they grow."""

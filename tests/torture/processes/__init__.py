"""Processes of clustercep that campaigns start, disturb and kill."""

"""Processes under a guard, what they use, their ports; threads that do something again and again."""

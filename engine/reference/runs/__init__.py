"""Runs of the strategies that skip nothing or till the next match."""

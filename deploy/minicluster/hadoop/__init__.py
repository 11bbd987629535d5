"""Hadoop's daemons: their configuration and what is asked of them."""

"""Queries of the configuration: their files, functions of others that they call, what runs of them exchange."""

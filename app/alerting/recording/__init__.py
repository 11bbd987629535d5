"""Matches become alerts and reports with their changes, evidence and messages, in one transaction each."""

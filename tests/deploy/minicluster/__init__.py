"""Tests of the mini cluster that need no cluster."""

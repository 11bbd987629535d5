"""Tests of what installs, packs and lists clustercep, and of the mini cluster."""

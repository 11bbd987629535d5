"""Daemons of Hadoop over their `/jmx`."""

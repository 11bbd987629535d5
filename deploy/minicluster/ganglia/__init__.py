"""Ganglia's daemons, and what is measured of each host and sent to them."""

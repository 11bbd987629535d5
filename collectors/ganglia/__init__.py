"""Ganglia's RRD files, and the load over the hosts derived from them."""

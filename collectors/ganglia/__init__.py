"""Ganglia: the RRD files that gmetad keeps, and what gmond and gmetad answer and send."""

"""Exporters of Prometheus: which there are, what they tell, and what of it becomes events."""

"""Alertmanager's API v2 over our alerts and silences: `clustercep api`, for amtool, Grafana and the like."""

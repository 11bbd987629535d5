"""From matches to alerts, and from alerts to the people who are told."""

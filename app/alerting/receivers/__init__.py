"""The services that are told of alerts: a module for each kind of receiver, and what they share."""

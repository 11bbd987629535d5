"""Between a change of an alert's state and the outbox: who is told, together with what, and when."""

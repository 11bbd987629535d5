"""`clustercep stream`: live detection beyond one machine."""

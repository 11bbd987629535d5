"""`clustercep alerts` and its commands, each of which is imported when it is called (`group.py`)."""

"""Sources and files to events."""

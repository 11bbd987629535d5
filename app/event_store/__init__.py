"""What can be told of an event store on this machine without Spark: its commits, its files and their events."""

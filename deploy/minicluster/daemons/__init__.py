"""A cluster for faults of daemons: three hosts, each with a DataNode and a NodeManager, and short time-outs."""

"""A real Hadoop and Ganglia cluster on one machine, with a workload, injected faults and a recorder."""

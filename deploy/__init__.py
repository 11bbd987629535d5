"""What is needed to install clustercep, and a cluster to try it on."""

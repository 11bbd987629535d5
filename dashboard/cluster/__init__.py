"""What the page of the cluster shows: samples over time as cells, load, nodes."""

"""What the clients of MapReduce jobs print while they wait for them."""

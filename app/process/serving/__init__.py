"""HTTP servers: of the live process, of `clustercep api`, of the demo, and the receiver of remote write."""

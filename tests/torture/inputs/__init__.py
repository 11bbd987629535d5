"""What campaigns put before clustercep: clusters whose logs grow, samples that are sent, hostile bytes."""

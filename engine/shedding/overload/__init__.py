"""When something has to be dropped, and how much, so that a latency bound holds (pSPICE, section III-E)."""

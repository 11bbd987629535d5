"""From what sources brought to what the watermark has passed: in order, each event once, and back where it leapt."""

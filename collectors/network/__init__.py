"""Documents over HTTP within limits of time and size, whatever the other side does."""

"""`make wheel`: clustercep as a wheel that carries compiled kernels, and the proof that it needs no compiler."""

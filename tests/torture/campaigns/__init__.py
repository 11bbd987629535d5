"""One module per campaign, named like it, with a function `run(given) -> Verdict`."""

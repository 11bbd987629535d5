"""From a stream to the matches of a plan: the runtimes (runs, pairs, automaton, windows of events), their output."""

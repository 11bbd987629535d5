"""Finished MapReduce jobs judged by heuristics: as Dr. Elephant does, and without its known faults.

figures.py    what is judged: a job, its tasks, their counters and settings, as plain values
severity.py   severities, thresholds, scores; what one heuristic found
known.py      whether enough is known to judge
thresholds.py Dr. Elephant's defaults
dr_elephant.py, corrected.py   the heuristics, each a function of a job's figures
advice.py     what to change
judging.py    all heuristics of a job, in both modes; judgement.py what they say of it
"""

"""Spark applications judged by heuristics: as Dr. Elephant does, and without its known faults.

figures.py    what is judged: an application, its jobs, stages, tasks and executors, as plain values
thresholds.py Dr. Elephant's defaults
dr_elephant.py, corrected.py   the heuristics, each a function of an application's figures
both_modes.py what these compute alike
advice.py     what to change
from_events.py figures from events
judging.py    all heuristics of an application, in both modes
"""

"""Numbers that plans and kernels share: operations of predicate programs, kinds of running aggregates, truth values.

Plain integers, because compiled kernels freeze module-level constants.
"""

from __future__ import annotations

# Three-valued logic (SQL's): AND is the minimum, OR the maximum, NOT x is 2 - x.
FALSE = 0
UNKNOWN = 1
TRUE = 2

# Operations of a program. Each works on a stack of doubles; NaN is NULL.
CONST = 0  # push constants[arg1]
COLUMN = 1  # push columns[arg2, rows[arg1]]; NULL when that register is unset (-1)
AGGREGATE = 2  # push aggregates[arg1]
ADD = 3
SUBTRACT = 4
MULTIPLY = 5
DIVIDE = 6  # real division; NULL when dividing by zero
MODULO = 7  # truncating remainder; NULL when dividing by zero
NEGATE = 8
SQRT = 9
EQ = 10
NE = 11
LT = 12
LE = 13
GT = 14
GE = 15
AND = 20
OR = 21
NOT = 22
MEMBER = 23  # pop x; TRUE when x equals one of constants[arg1 : arg1 + arg2]

MAX_STACK = 64

# Which events of a Kleene component a program holds for where it is evaluated once the component is complete.
OVER_ALL = 0
OVER_LATER = 1  # from the second on
OVER_PAIRS = 2  # from the second on; the register of the component's last event is that of the event before

# Kinds of running aggregates over a Kleene variable; NULL values of the column are left out (as in SQL).
AGG_COUNT_EVENTS = 0
AGG_COUNT = 1
AGG_SUM = 2
AGG_MIN = 3
AGG_MAX = 4
AGG_MEAN = 5  # Welford's running mean; the slot before it is the AGG_COUNT of the same column
AGG_M2 = 6  # Welford's sum of squared differences; the slot before it is the AGG_MEAN
AGG_LAG = 7  # the value that slot `base` had before the last event was taken

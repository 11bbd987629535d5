"""The oracle: slow, obvious, straight from the definitions; what every runtime is compared with."""

from engine.reference.composition import reference_cascade
from engine.reference.matches import ReferenceMatch, reference_matches
from engine.reference.rows.output import ReferenceRow, reference_output

__all__ = ["ReferenceMatch", "ReferenceRow", "reference_cascade", "reference_matches", "reference_output"]

"""How sure it is: confidences of matches, and of at least one of several, over imprecise times."""

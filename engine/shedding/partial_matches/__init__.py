"""The utility of partial matches (pSPICE): how runs go on, how likely they complete, what they still cost."""

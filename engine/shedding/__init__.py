"""Load shedding (pSPICE, gSPICE): what is dropped under overload. Nothing here yet."""

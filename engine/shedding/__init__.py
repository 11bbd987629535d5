"""Load shedding (pSPICE, gSPICE): what is dropped under overload, and how that is learned. See docs/overload.md."""

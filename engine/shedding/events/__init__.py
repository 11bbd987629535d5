"""The utility of events (gSPICE): from their type, their attributes and the events before them."""

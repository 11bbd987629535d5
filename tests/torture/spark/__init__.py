"""The parts of the campaign `spark`."""

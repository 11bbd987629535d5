"""What clustercep is made of: a bill of materials (CycloneDX), and its parts against known advisories."""

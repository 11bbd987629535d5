"""The engine: many queries over one stream, the choice of a runtime, composition, quotas, warming."""

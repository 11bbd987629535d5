"""The live path: from sources, in order, through the engine, to alerts and the store; and its checkpoint."""

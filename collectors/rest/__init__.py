"""REST interfaces of ResourceManager, MapReduce ApplicationMaster and JobHistoryServer."""

"""Changes of the tables, in order; Alembic applies them when the store is opened."""

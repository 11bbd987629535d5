"""The query editor behind the page: checks, runs in processes of their own, results."""

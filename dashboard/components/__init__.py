"""Components of our own for pages, each with its script and style: texts travel as data and never become markup."""

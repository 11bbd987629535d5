"""All that reads what others write, each with samples of what is right."""

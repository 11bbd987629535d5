"""What the pages of alerts show: table, filters, actions, evidence, words."""

"""A batch once decoded: columns, string codes, keys, early filters, kept events, positions, division."""

"""What the campaign `drip` tries: who never comes to an end, and who must not wait for it."""

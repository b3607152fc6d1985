"""Many logs on one machine: topics, what is read from them and written to them."""

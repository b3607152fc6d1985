"""Settings: which there are, what each accepts, and where their values come from."""

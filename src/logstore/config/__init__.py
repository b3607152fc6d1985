"""Settings: their keys, accepted values and sources."""

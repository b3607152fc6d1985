"""The keys that are neither Produce nor Fetch, a module for each family: functions from a request to a response."""

"""TLS of connections to brokers: certificates and keys from settings, and sockets with and without it."""

"""SASL of connections to brokers: the mechanisms, and the tokens of OAUTHBEARER."""

"""What a client knows of a cluster: brokers, topics and leaders, and when it asks for them again. No sockets."""

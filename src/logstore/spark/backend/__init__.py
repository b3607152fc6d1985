"""Back ends that Spark reads records from: files of a store, or brokers."""

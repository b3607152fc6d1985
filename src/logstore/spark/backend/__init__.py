"""Where records come from, for Spark: files of a store, or brokers."""

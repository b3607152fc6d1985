"""The contract of back ends over brokers: topics, ranges, fetching ahead, committed offsets."""

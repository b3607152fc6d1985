"""What producers, consumers and scans do, over a `Backend`: no files, no sockets."""

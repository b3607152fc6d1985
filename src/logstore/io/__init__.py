"""Only interface to the operating system: files, descriptors, interrupts, waiting for another process's writes."""

"""The one seam to the operating system: files, descriptors, interrupts, waiting for another process to write."""

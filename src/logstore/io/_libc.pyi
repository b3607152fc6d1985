"""Operating system behind the table of file operations: libc and its system calls."""

"""The operating system behind the table of file operations: libc, and what it calls."""

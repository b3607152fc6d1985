"""A record batch as bytes: its layout, checksum, compression, records in and out. No files."""

"""What `make release` does: build, check, publish to a throw-away index, install from it, try.

Stands outside the package and is in no wheel. Nothing here is sent anywhere but to this machine; what has
passed is stored in `dist/`, to be uploaded with the command that the last line shows.
"""

"""Written by ``python -m codegen.keywords`` from the classes of settings: change those, and nothing here."""

"""Written by ``python -m codegen.generate`` from codegen/messages.txt: change those, and nothing here."""

"""Commands, one module for each noun; `main` imports a module when its command is called."""

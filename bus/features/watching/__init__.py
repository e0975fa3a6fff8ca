"""watching."""

"""searches."""

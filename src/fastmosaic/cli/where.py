"""The language of --where."""

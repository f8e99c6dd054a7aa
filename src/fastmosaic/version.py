"""The version of the package. Packaging reads it from here, and written files record it."""

__version__ = "0.1.0"

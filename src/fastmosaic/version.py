"""The version of the package, which files name too."""

__version__ = "0.1.0"

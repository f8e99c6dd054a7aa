"""The rows of files of any format."""

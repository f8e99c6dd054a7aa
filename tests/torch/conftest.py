"""Tests with PyTorch: `make test-torch` makes an environment that has it."""

import importlib.util

if importlib.util.find_spec("torch") is None:
    collect_ignore_glob = ["test_*.py"]

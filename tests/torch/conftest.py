"""Tests with PyTorch: `make test-torch` makes an environment that has it."""

try:
    import torch.utils.data  # noqa: F401 # without PyTorch, `torch` is this folder
except ImportError:
    collect_ignore_glob = ["test_*.py"]

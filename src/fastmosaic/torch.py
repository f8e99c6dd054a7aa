"""Train with PyTorch on Mosaic files."""

from .interop.torch import MosaicIterable

__all__ = ["MosaicIterable"]

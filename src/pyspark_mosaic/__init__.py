"""The package in which Spark finds the data source of `spark.read.format("mosaic")`."""

from fastmosaic.spark.source.source import MosaicDataSource as DefaultSource

__all__ = ["DefaultSource"]

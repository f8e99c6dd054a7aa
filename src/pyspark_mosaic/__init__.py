"""Where Spark looks for data sources: `spark.read.format("mosaic")` finds this one."""

from fastmosaic.spark.source.source import MosaicDataSource as DefaultSource

__all__ = ["DefaultSource"]

"""The jobs over files as an application for spark-submit.

    spark-submit --master spark://host:7077 .../fastmosaic/spark/app.py convert SRC DST

It has the same arguments as `fastmosaic spark`. Options of Spark itself come before the path of this
file, which `python -c "import fastmosaic.spark.app as app; print(app.__file__)"` prints.
"""

import sys

if __name__ == "__main__":
    # As a script, its directory comes first in the path and would hide other packages.
    del sys.path[0]

from fastmosaic.cli.commands.spark import main

__all__ = ["main"]

if __name__ == "__main__":
    sys.exit(main())

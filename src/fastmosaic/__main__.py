"""Run the command `fastmosaic` as `python -m fastmosaic`."""

import sys

from .cli import main

if __name__ == "__main__":
    sys.exit(main())

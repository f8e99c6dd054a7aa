"""Write the files of tests/golden with paimon-mosaic, from the rows beside them.

Each fixture has its rows in an Arrow file, and its batches and writer options in manifest.json.
Files that are missing are written; all others are compared, and stay as they are. One differs:
nested_required_names was written from lists whose items had names, which Mosaic does not store.
"""

import io
import sys
from pathlib import Path

import mosaic

TESTS = Path(__file__).parents[1] / "tests"
sys.path[:0] = [str(TESTS), str(TESTS / "file")]

from test_golden import FIXTURES, GOLDEN, expected_content, input_batches


def written(fixture: dict) -> bytes:
    """Return the file that paimon-mosaic writes for a fixture."""
    sink = io.BytesIO()
    options = mosaic.WriterOptions(**fixture["writer_options"])
    with mosaic.MosaicWriter(sink, expected_content(fixture).schema, options) as writer:
        for batch in input_batches(fixture):
            writer.write(batch)
    return sink.getvalue()


if __name__ == "__main__":
    same = 0
    for fixture in FIXTURES:
        path, data = GOLDEN / fixture["file"], written(fixture)
        if not path.exists():
            path.write_bytes(data)
            print(f"{path.name}: written")
        elif path.read_bytes() == data:
            same += 1
        else:
            print(f"{path.name}: differs")
    print(f"{same} of {len(FIXTURES)} files are the same")

"""The environment of Spark in tests, and an archive of classes with which its JVM starts faster.

    python tests/spark_jvm.py       makes the archive

ARCHIVE  the archive, in the environment of this Python; tests do without it if there is none
OPTIONS  of all JVMs in tests
CONF     settings of all sessions in tests
PATH     `PYTHONPATH` of processes that start sessions, and so of their workers

Tests start many JVMs, which spend much of their first seconds on loading classes. A JVM ignores
an archive that was made by another version of Java or for another class path.
"""

from __future__ import annotations

import os
import sys
import tempfile
from pathlib import Path
from typing import Final

TESTS: Final = Path(__file__).parent
PATH: Final = os.pathsep.join(map(str, (TESTS.parent / "src", TESTS, TESTS / "spark_python")))
ARCHIVE: Final = Path(sys.prefix) / "spark.jsa"
# Tests are short: optimizing code costs more than it saves.
QUICK: Final = "-XX:+UseSerialGC -XX:TieredStopAtLevel=1 -XX:-UsePerfData -Xlog:disable"
OPTIONS: Final = f"{QUICK} -XX:SharedArchiveFile={ARCHIVE}" if ARCHIVE.exists() else QUICK
CONF = {
    "spark.driver.memory": "1g",
    "spark.driver.extraJavaOptions": OPTIONS,
    "spark.sql.shuffle.partitions": "1",
    "spark.default.parallelism": "2",
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
    "spark.log.level": "ERROR",
    "spark.sql.session.timeZone": "UTC",
    "spark.driver.host": "127.0.0.1",
    "spark.driver.bindAddress": "127.0.0.1",
}


def main() -> None:
    """Load classes as most tests do, and write the archive as the JVM ends."""
    import pyarrow as pa

    import fastmosaic as fm
    import fastmosaic.spark as fs

    made = ARCHIVE.with_suffix(".new")
    options = f"{QUICK} -XX:ArchiveClassesAtExit={made}"
    conf = CONF | {"spark.driver.extraJavaOptions": options}
    with tempfile.TemporaryDirectory() as directory:
        here = Path(directory)
        fm.write_dataset(pa.table({"id": range(100), "key": [1, 2] * 50}), here / "data")
        spark = fs.session("archive", "local[2]", **conf)
        df = fs.read(spark, here / "data").where("id > 3")
        df.join(df.groupBy("key").count(), "key").orderBy("id").collect()
        df.toPandas()
        df.write.format("mosaic").mode("append").save(str(here / "written"))
        fs.catalog(spark, "lake", here)
        spark.sql("create table lake.t as select id, id % 2 as key from lake.data")
        spark.sql("insert into lake.t select * from lake.t")
        spark.sql("select count(*) from lake.t").show()
        (here / "incoming").mkdir()
        (here / "incoming" / "0.json").write_text('{"id": 1, "key": 2}\n')
        stream = spark.readStream.schema(df.schema).json(str(here / "incoming"))
        stream.writeStream.format("mosaic").option("checkpointLocation", str(here / "c")).trigger(
            availableNow=True
        ).start(str(here / "streamed")).awaitTermination()
        gateway = spark.sparkContext._gateway
        spark.stop()
        gateway.proc.stdin.close()
        gateway.proc.wait()
    made.rename(ARCHIVE)


if __name__ == "__main__":
    main()

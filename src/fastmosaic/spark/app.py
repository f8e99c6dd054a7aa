"""The jobs over files from the shell.

    fastmosaic spark convert SRC DST --statistics id,day
    spark-submit --master spark://host:7077 .../fastmosaic/spark/app.py convert SRC DST

Both take the same words. With spark-submit, Spark's own options come before the path of this file,
which `python -c "import fastmosaic.spark.app as app; print(app.__file__)"` prints.
"""

from __future__ import annotations

import sys

if __name__ == "__main__":
    # As a script, its directory comes first in the path, with modules that are not for everyone.
    del sys.path[0]

import argparse
import json
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from fastmosaic.cli.exit import NO, OK, reported, size
from fastmosaic.query.selection import split_names

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Let `parser` take the words of this module."""
    verbs = parser.add_subparsers(dest="verb", required=True, metavar="VERB")

    one = verbs.add_parser("convert", help="files of other formats to Mosaic, or back")
    one.add_argument("src", nargs="+", help="paths, globs or directories")
    one.add_argument("dst", help="a directory")
    one.add_argument("--from", dest="source_format", metavar="FORMAT", help="by default, by name")
    one.add_argument("--to", dest="target_format", metavar="FORMAT", default="mosaic")
    one.add_argument("--target-bytes", type=size, metavar="SIZE", help="of a file, such as 256m")
    one.add_argument("--statistics", type=split_names, metavar="NAMES", help="columns, or 'all'")
    one.add_argument("--sort-by", type=split_names, metavar="NAMES", help="sort rows within files")
    one.add_argument("--check-schema", action="store_true", help="schemas that differ are an error")
    one.add_argument("--skip-bad", action="store_true", help="leave bad files out, and report them")
    existing = one.add_mutually_exclusive_group()
    existing.add_argument("--overwrite", action="store_true")
    existing.add_argument("--append", action="store_true")
    one.add_argument("--no-resume", action="store_true", help="do everything anew")
    one.set_defaults(job=_convert)

    one = verbs.add_parser("compact", help="small files into large ones")
    one.add_argument("path", help="a directory")
    one.add_argument("--target-bytes", type=size, metavar="SIZE", help="of a file, such as 256m")
    one.add_argument("--no-resume", action="store_true", help="do everything anew")
    one.set_defaults(job=_compact)

    one = verbs.add_parser("verify", help="check every file")
    one.add_argument("path", nargs="+", help="paths, globs or directories")
    one.add_argument("--shallow", action="store_true", help="read the metadata only")
    one.add_argument(
        "--records", metavar="DIR", help="keep what is checked, to go on after a crash"
    )
    one.set_defaults(job=_verify)

    one = verbs.add_parser("profile", help="what the columns hold")
    one.add_argument("path", nargs="+", help="paths, globs or directories")
    one.add_argument("--columns", type=split_names, metavar="NAMES")
    one.add_argument("--records", metavar="DIR", help="keep what is found, to go on after a crash")
    one.set_defaults(job=_profile)

    for one in verbs.choices.values():
        one.add_argument("--json", action="store_true", help="print the report as JSON")
        one.add_argument("--master", help="of Spark; by default all cores of this machine")
        one.set_defaults(run=run)


def run(arguments: argparse.Namespace) -> int:
    """Do what was asked for, and print the report; the exit status."""
    from fastmosaic.spark.sessions import session

    spark = session(master=arguments.master)
    act: Callable[[SparkSession, argparse.Namespace], Any] = arguments.job
    report = act(spark, arguments)
    if arguments.json:
        print(json.dumps(report.to_dict(), indent=2))
    else:
        for line in report.lines():
            print(line)
    return OK if getattr(report, "ok", True) else NO


def main(argv: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="app.py", description="Jobs over Mosaic files, by Spark")
    add_arguments(parser)
    arguments = parser.parse_args(argv)
    return reported(run, arguments)


def _convert(spark: SparkSession, arguments: argparse.Namespace) -> Any:
    from fastmosaic.spark.jobs.convert import DEFAULT_TARGET_BYTES, convert

    options = {}
    if arguments.statistics:
        chosen = arguments.statistics
        options["write_statistics"] = True if chosen == ["all"] else chosen
    return convert(
        spark,
        _source(arguments.src),
        arguments.dst,
        source_format=arguments.source_format,
        target_format=arguments.target_format,
        unify=not arguments.check_schema,
        target_file_bytes=arguments.target_bytes or DEFAULT_TARGET_BYTES,
        sort_by=arguments.sort_by,
        existing="overwrite" if arguments.overwrite else "append" if arguments.append else "error",
        resume=not arguments.no_resume,
        on_error="skip" if arguments.skip_bad else "raise",
        **options,
    )


def _compact(spark: SparkSession, arguments: argparse.Namespace) -> Any:
    from fastmosaic.spark.jobs.compact import compact
    from fastmosaic.spark.jobs.convert import DEFAULT_TARGET_BYTES

    return compact(
        spark,
        arguments.path,
        target_bytes=arguments.target_bytes or DEFAULT_TARGET_BYTES,
        resume=not arguments.no_resume,
    )


def _verify(spark: SparkSession, arguments: argparse.Namespace) -> Any:
    from fastmosaic.spark.jobs.verify import verify

    source = _source(arguments.path)
    return verify(spark, source, deep=not arguments.shallow, records=arguments.records)


def _profile(spark: SparkSession, arguments: argparse.Namespace) -> Any:
    from fastmosaic.spark.jobs.profile import profile

    source = _source(arguments.path)
    return profile(spark, source, columns=arguments.columns, records=arguments.records)


def _source(paths: Sequence[str]) -> str | list[str]:
    return paths[0] if len(paths) == 1 else list(paths)


if __name__ == "__main__":
    sys.exit(main())

"""spark: jobs over many files."""

from __future__ import annotations

import argparse
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from ...errors import printable
from ...query.selection import split_names
from ..arguments import Commands, add_follow_links, add_json, add_where, size
from ..exit import NO, OK, reported
from ..output.console import Console
from ..target import add_mode
from .stats import print_profiles
from .table import add_vacuum_options

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_DESCRIPTION = (
    "Convert, compact, verify and profile many files with Apache Spark, and change tables."
)
_EPILOG = """\
examples:
  fastmosaic spark add-columns features "ratio = a / b" "kind = coalesce(kind, 'none')"
  fastmosaic spark convert warehouse data --statistics id
  fastmosaic spark verify data --records checked
  fastmosaic spark COMMAND --help
"""


def add(commands: Commands) -> None:
    """Register the `spark` command."""
    parser = commands.add_parser(
        "spark",
        help="run jobs over many files with Spark",
        description=_DESCRIPTION,
        epilog=_EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    add_jobs(parser)


def main(argv: Sequence[str] | None = None) -> int:
    """Run one of the jobs as an application of its own, e.g. with spark-submit."""
    from ..arguments import CommandParser

    parser = CommandParser(prog="app.py", description=_DESCRIPTION)
    add_jobs(parser)
    return reported(run, parser.parse_args(argv))


def add_jobs(parser: argparse.ArgumentParser) -> None:
    """Add the jobs to `parser`."""
    jobs = parser.add_subparsers(dest="verb", required=True, metavar="COMMAND")

    one = jobs.add_parser("convert", help="convert files to Mosaic, or from Mosaic")
    one.add_argument("src", nargs="+", metavar="SRC", help="files, directories, globs or URIs")
    one.add_argument("dst", metavar="DST", help="the directory to write")
    one.add_argument(
        "--from",
        dest="source_format",
        metavar="FORMAT",
        help="format of SRC (default: by the names of the files)",
    )
    one.add_argument(
        "--to",
        dest="target_format",
        metavar="FORMAT",
        default="mosaic",
        help="format of DST (default: mosaic)",
    )
    _add_target_bytes(one)
    one.add_argument(
        "--statistics",
        type=split_names,
        metavar="NAMES",
        help="columns to write statistics for, or 'all'",
    )
    one.add_argument(
        "--sort-by", type=split_names, metavar="NAMES", help="sort rows within each file"
    )
    one.add_argument(
        "--check-schema", action="store_true", help="fail if the files have different schemas"
    )
    one.add_argument("--skip-bad", action="store_true", help="skip and report unreadable files")
    _add_existing(one)
    _add_no_resume(one)
    add_follow_links(one)
    one.set_defaults(job=_convert)

    one = jobs.add_parser("compact", help="merge small files into larger ones")
    one.add_argument("path", metavar="PATH", help="a table, or a local directory")
    _add_target_bytes(one)
    add_mode(one)
    _add_no_resume(one)
    one.set_defaults(job=_compact)

    one = jobs.add_parser("concat", help="write files to another directory as larger ones")
    one.add_argument("src", nargs="+", metavar="SRC", help="files, directories, globs or URIs")
    one.add_argument("dst", metavar="DST", help="the directory to write")
    _add_target_bytes(one)
    add_mode(one)
    _add_existing(one)
    _add_no_resume(one)
    add_follow_links(one)
    one.set_defaults(job=_concat)

    one = jobs.add_parser("add-columns", help="add columns to a table")
    _add_table(one)
    one.add_argument(
        "expressions",
        nargs="+",
        type=assignment,
        metavar="NAME=EXPRESSION",
        help='a column and an expression in Spark SQL, e.g. "ratio = a / b"',
    )
    one.add_argument("--replace", action="store_true", help="replace columns that exist")
    _add_no_resume(one)
    one.set_defaults(job=_add_columns)

    one = jobs.add_parser("delete", help="delete rows of a table")
    _add_table(one)
    add_where(one, is_required=True)
    _add_no_resume(one)
    one.set_defaults(job=_delete)

    one = jobs.add_parser("fold", help="rewrite files of a table with their added columns")
    _add_table(one)
    _add_no_resume(one)
    one.set_defaults(job=_fold)

    one = jobs.add_parser("vacuum", help="remove old versions and unused files of a table")
    _add_table(one)
    add_vacuum_options(one)
    one.set_defaults(job=_vacuum)

    one = jobs.add_parser("verify", help="check files for damage")
    one.add_argument("path", nargs="+", metavar="PATH", help="files, directories, globs or URIs")
    one.add_argument("--shallow", action="store_true", help="check the metadata only")
    _add_records(one)
    add_follow_links(one)
    one.set_defaults(job=_verify)

    one = jobs.add_parser("profile", help="describe the content of columns")
    one.add_argument("path", nargs="+", metavar="PATH", help="files, directories, globs or URIs")
    one.add_argument(
        "--columns", type=split_names, metavar="NAMES", help="columns to profile (default: all)"
    )
    _add_records(one)
    add_follow_links(one)
    one.set_defaults(job=_profile)

    for one in jobs.choices.values():
        add_json(one)
        one.add_argument("--master", help="Spark master URL (default: all cores of this machine)")
        one.set_defaults(run=run)


def _add_table(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("table", metavar="TABLE", help="the directory or URI of a table")


def _add_existing(parser: argparse.ArgumentParser) -> None:
    existing = parser.add_mutually_exclusive_group()
    existing.add_argument("--overwrite", action="store_true", help="replace the files in DST")
    existing.add_argument("--append", action="store_true", help="add files to those in DST")


def _existing(arguments: argparse.Namespace) -> str:
    return "overwrite" if arguments.overwrite else "append" if arguments.append else "error"


def assignment(text: str) -> tuple[str, str]:
    """Parse the name of a column and an expression: ratio = a / b."""
    name, _, expression = text.partition("=")
    name = name.strip()
    if len(name) > 1 and name[0] == name[-1] == "`":
        name = name[1:-1].replace("``", "`")
    if not name or not expression.strip():
        raise argparse.ArgumentTypeError(f"invalid {text!r} (expected e.g. ratio = a / b)")
    return name, expression.strip()


def _add_target_bytes(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--target-bytes", type=size, metavar="SIZE", help="size of the files to write, e.g. 256m"
    )


def _add_no_resume(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--no-resume",
        action="store_true",
        help="start from scratch instead of resuming an interrupted run",
    )


def _add_records(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--records", metavar="DIR", help="keep results in DIR, to resume an interrupted run"
    )


def run(arguments: argparse.Namespace) -> int:
    """Run a job and print its report."""
    from ...spark.jobs.report import ProfileReport
    from ...spark.sessions import session

    act: Callable[[SparkSession, argparse.Namespace], Any] = arguments.job
    report = act(session(master=arguments.master), arguments)
    console = Console(arguments)
    if console.is_json:
        console.document(report.to_dict())
    elif console.is_terminal and isinstance(report, ProfileReport):
        print_profiles(console, report.columns, footer=str(report))
    else:
        for line in report.lines():
            print(printable(line))
    return OK if getattr(report, "ok", True) else NO


def _convert(spark: SparkSession, arguments: argparse.Namespace) -> Any:
    from ...spark.jobs.convert import DEFAULT_TARGET_BYTES, convert

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
        existing=_existing(arguments),
        resume=not arguments.no_resume,
        on_error="skip" if arguments.skip_bad else "raise",
        follow_links=arguments.follow_links,
        **options,
    )


def _compact(spark: SparkSession, arguments: argparse.Namespace) -> Any:
    from ...spark.jobs.compact import compact
    from ...spark.jobs.convert import DEFAULT_TARGET_BYTES

    return compact(
        spark,
        arguments.path,
        target_bytes=arguments.target_bytes or DEFAULT_TARGET_BYTES,
        mode=arguments.mode,
        resume=not arguments.no_resume,
    )


def _concat(spark: SparkSession, arguments: argparse.Namespace) -> Any:
    from ...spark.jobs.concat import concat
    from ...spark.jobs.convert import DEFAULT_TARGET_BYTES

    return concat(
        spark,
        _source(arguments.src),
        arguments.dst,
        target_file_bytes=arguments.target_bytes or DEFAULT_TARGET_BYTES,
        mode=arguments.mode,
        existing=_existing(arguments),
        resume=not arguments.no_resume,
        follow_links=arguments.follow_links,
    )


def _add_columns(spark: SparkSession, arguments: argparse.Namespace) -> Any:
    from ...spark.jobs.columns import add_columns

    expressions: dict[str, str] = {}
    for name, expression in arguments.expressions:
        if name in expressions:
            raise ValueError(f"there are two expressions for column {name!r}")
        expressions[name] = expression
    return add_columns(
        spark,
        arguments.table,
        expressions,
        replace=arguments.replace,
        resume=not arguments.no_resume,
    )


def _delete(spark: SparkSession, arguments: argparse.Namespace) -> Any:
    from ...query.where import parse
    from ...schemas.union import Fixed
    from ...spark.jobs.delete import delete
    from ...table.table import MosaicTable

    table = MosaicTable(arguments.table)
    condition = parse(arguments.where).expression(Fixed(table.schema))
    return delete(spark, table, condition, resume=not arguments.no_resume)


def _fold(spark: SparkSession, arguments: argparse.Namespace) -> Any:
    from ...spark.jobs.fold import fold

    return fold(spark, arguments.table, resume=not arguments.no_resume)


def _vacuum(spark: SparkSession, arguments: argparse.Namespace) -> Any:
    from ...spark.jobs.vacuum import vacuum

    return vacuum(
        spark,
        arguments.table,
        arguments.older_than,
        keep_versions=arguments.keep,
        dry_run=arguments.dry_run,
    )


def _verify(spark: SparkSession, arguments: argparse.Namespace) -> Any:
    from ...spark.jobs.verify import verify

    source = _source(arguments.path)
    return verify(
        spark,
        source,
        deep=not arguments.shallow,
        records=arguments.records,
        follow_links=arguments.follow_links,
    )


def _profile(spark: SparkSession, arguments: argparse.Namespace) -> Any:
    from ...spark.jobs.profile import profile

    source = _source(arguments.path)
    return profile(
        spark,
        source,
        columns=arguments.columns,
        records=arguments.records,
        follow_links=arguments.follow_links,
    )


def _source(paths: Sequence[str]) -> str | list[str]:
    return paths[0] if len(paths) == 1 else list(paths)

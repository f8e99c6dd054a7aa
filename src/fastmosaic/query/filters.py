"""Filters as Arrow expressions: which columns, row groups and rows they concern.

Arrow decides which row groups can match. Each row group becomes a fragment of a dataset that is
never read, and its statistics become the partition expression of that fragment. This may keep row
groups without a match, so Arrow also filters the rows that are read. Nothing here walks over
expressions.

pyarrow.dataset takes long to import, so it is imported on use.
"""

from __future__ import annotations

import functools
import math
import operator
import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, Any, Final, NamedTuple

import pyarrow as pa
from pyarrow import types

from ..errors import ColumnNotFoundError, printable
from ..format.paths import Path, children, leaves, pruned
from .rows import one_batch

if TYPE_CHECKING:
    from pyarrow.compute import Expression

__all__ = [
    "Statistics",
    "constant",
    "fields_of",
    "filter_batch",
    "filter_table",
    "guarantee",
    "mask_of",
    "matching",
    "matching_rows",
    "to_expression",
]


class Statistics(NamedTuple):
    """What is known about a column, or a field of a struct, in a row group."""

    path: Path
    type: pa.DataType
    num_rows: int
    null_count: int
    minimum: pa.Scalar | None
    maximum: pa.Scalar | None


# An expression prints as text: `((x > 5) and invert(is_in(y, {value_set=...})))`.
# Arrow takes kilobytes for what it knows about a row group.
_GROUPS_AT_ONCE: Final = 4096
# A call takes microseconds: one for all columns is faster, if there are many and few rows.
_MANY_COLUMNS: Final = 64
NO_MATCH: Final = "No match for FieldRef.Name("
BY_POSITION: Final = re.compile(r'(?<!["\w])FieldPath\(\d')
FUNCTION: Final = re.compile(r"(?<!\w)(\w++)\(")
NAN: Final = re.compile(r"(?<!\w)nan(?!\w)")
# Functions that neither produce NaN nor round, and a type that is printed before lists of values.
PLAIN_FUNCTIONS: Final = frozenset(
    {"invert", "is_in", "is_null", "is_valid", "match_like", "decimal128"}
)


def to_expression(
    filters: object, path_of: Callable[[str], Path | None] | None = None
) -> Expression:
    """Convert `filters`, in any form that pyarrow.parquet accepts, to an Arrow expression.

    `path_of` finds fields of structs, such as `info.name`, that are named in a list of tuples.
    """
    from pyarrow.parquet import filters_to_expression

    try:
        if isinstance(filters, list | tuple) and path_of is not None:
            return filters_to_expression(_with_paths(filters, path_of))
        return filters_to_expression(filters)
    except (TypeError, ValueError, IndexError) as error:
        raise ValueError(
            "filters must be an Arrow expression, a list of (column, operator, value) tuples, "
            f"or a list of such lists, not {filters!r}: {error}"
        ) from error


def _with_paths(filters: Any, path_of: Callable[[str], Path | None]) -> Any:
    """Return a list of tuples, or a list of such lists, with paths in place of dotted names."""
    groups = [filters] if filters and isinstance(filters[0][0], str) else filters

    def located(condition: Any) -> Any:
        column, *rest = condition
        path = path_of(column) if isinstance(column, str) and "." in column else None
        return column if path is None or len(path) == 1 else path, *map(_as_literal, rest)

    return [[located(condition) for condition in group] for group in groups]


def _as_literal(value: Any) -> Any:
    """Return a value that Arrow can compare: it takes integers for int64, and has no float16."""
    if isinstance(value, int) and 2**63 <= value < 2**64:
        return pa.scalar(value, pa.uint64())
    if isinstance(value, pa.HalfFloatScalar):
        return value.cast(pa.float32())
    # NumPy's or pandas'
    return value.astype("float32") if str(getattr(value, "dtype", "")) == "float16" else value


def fields_of(
    expression: Expression,
    names_in: Callable[[str], Iterable[str]],
    field: Callable[[str], pa.Field],
    similar: Callable[[str], Iterable[str]] | None = None,
    *,
    is_filter: bool = True,
) -> tuple[pa.Field, ...]:
    """Return the columns that `expression` refers to, with those fields of structs that it uses.

    pyarrow has no function for this. But an expression prints the names that it contains, and it
    binds only to a schema that has all of them. So the columns are those whose name occurs in its
    text and without which it does not bind.

    `names_in(text)` returns the names of columns that occur in a text, and `field(name)` returns a
    column, so that only these are decoded for a wide file. `similar(name)` returns names for the
    error message when a column is missing.
    """
    text = str(expression)
    if BY_POSITION.search(text):
        raise ValueError(f"filter {_shown(text)} refers to a column by position; use its name")
    candidates = [field(name) for name in dict.fromkeys(names_in(text))]
    try:
        _bind(expression, candidates)
        needed = _needed(expression, candidates, [])
        if any(types.is_nested(one.type) for one in needed):
            needed = _without_unused(expression, needed, is_filter=is_filter)
        if is_filter:
            # A scanner accepts any expression as its filter; check that it is boolean.
            filter_table(pa.schema(needed).empty_table(), expression)
    except pa.ArrowException as error:
        message = str(error)
        if not message.startswith(NO_MATCH):
            raise ValueError(
                f"filter {_shown(text)} does not match the types of its columns: {message}"
            ) from error
        # pyarrow tells the name in no other way.
        missing = message.removeprefix(NO_MATCH).partition(") in ")[0]
        not_found = ColumnNotFoundError.for_name(
            missing, () if similar is None else similar(missing)
        )
        not_found.add_note(f"in the filter {_shown(text)}")
        raise not_found from error
    return tuple(needed)


def _without_unused(
    expression: Expression, fields: Sequence[pa.Field], *, is_filter: bool
) -> list[pa.Field]:
    """Return columns with only those fields of their structs that the expression uses.

    A struct itself can be the value of an expression, but a filter can only tell if it is null.
    """
    every = [(path, leaf) for field in fields for path, leaf in leaves(field)]
    text = _tokens(str(expression), [path for path, _ in every])
    if not PLAIN_FUNCTIONS.issuperset(FUNCTION.findall(text)):
        return list(fields)  # a function may look at a whole struct
    used = [path for path, _ in every if len(path) > 1 and _reference(path) in str(expression)]
    kept = []
    for field in fields:
        paths = [path[1:] for path in used if path[0] == field.name]
        is_whole = not children(field.type) or (not is_filter and field.name in text)
        kept.append(field if is_whole else field.with_type(pruned(field.type, paths)))
    try:
        _bind(expression, kept)
    except pa.ArrowException:
        return list(fields)
    return kept


def _reference(path: Path) -> str:
    """Return how Arrow prints the reference to a field of a struct."""
    return f"FieldRef.Nested({' '.join(f'FieldRef.Name({name})' for name in path)})"


def _tokens(text: str, paths: Iterable[Path]) -> str:
    """Return the text of an expression with words in place of references to fields of structs."""
    for number, path in enumerate(paths):
        text = text.replace(_reference(path), f"nested_{number}") if len(path) > 1 else text
    return text


def _needed(
    expression: Expression, suspects: Sequence[pa.Field], others: Sequence[pa.Field]
) -> list[pa.Field]:
    """Return those of `suspects` without which the expression does not bind; with all it does."""
    try:
        _bind(expression, others)
    except pa.ArrowInvalid:
        if len(suspects) == 1:
            return list(suspects)
        half = len(suspects) // 2
        first = _needed(expression, suspects[:half], [*others, *suspects[half:]])
        return first + _needed(expression, suspects[half:], [*others, *first])
    return []


def _bind(expression: Expression, fields: Iterable[pa.Field]) -> None:
    from pyarrow.dataset import Scanner

    Scanner.from_batches(iter(()), schema=pa.schema(fields), filter=expression)


def _shown(text: str) -> str:
    """Return `text`, which may contain a long list of values, as one line for a message."""
    line = printable(" ".join(text.split()))
    return line if len(line) <= 200 else f"{line[:200]}..."


def guarantee(known: Statistics) -> Expression | None:
    """Return what statistics say about every row of a row group, except NaN; None if nothing.

    The statistics of the format ignore NaN, unless it is the first value. `matching` handles this.
    """
    import pyarrow.compute as pc

    path, type, num_rows, null_count, minimum, maximum = known
    column = pc.field(*path)
    if null_count == num_rows:
        return column.is_null()
    # False for a NaN, and for a minimum above the maximum, which readers of the format accept.
    if minimum is None or maximum is None or not pc.less_equal(minimum, maximum).as_py():
        return column.is_valid() if null_count == 0 else None
    if minimum == maximum and not types.is_floating(type):
        # Arrow substitutes the value for the column. Not for floats, because -0.0 == 0.0.
        bounds = [column == minimum]
    else:
        bounds = [column >= minimum, column <= maximum]
    if null_count:
        # One by one: Arrow uses `bound | is_null`, but not `(bound & bound) | is_null`.
        bounds = [bound | column.is_null() for bound in bounds]
    return _all(bounds)


def constant(path: Path, type: pa.DataType, value: pa.Scalar, num_rows: int) -> Statistics:
    """Return the statistics of a column with the same value in all rows."""
    if value.is_valid:
        return Statistics(path, type, num_rows, 0, value, value)
    return Statistics(path, type, num_rows, num_rows, None, None)


def matching(
    expression: Expression, groups: Sequence[Sequence[Statistics]], schema: pa.Schema
) -> list[int]:
    """Return the indices of the row groups that may contain a match, ascending.

    `groups[i]` contains the known statistics of row group `i` for columns of the filter. `schema`
    contains exactly the columns of the filter.
    """
    everything = list(range(len(groups)))
    if not any(groups):
        return everything
    import pyarrow.compute as pc

    columns = [(path, leaf.type) for field in schema for path, leaf in leaves(field)]
    plain = _is_plain(str(expression), [path for path, _ in columns])
    if plain and any(types.is_duration(type) for _, type in columns):
        # Arrow uses bounds only if column and value have the same unit, and casts values to ns.
        schema = pa.schema([field.with_type(_in_ns(field.type)) for field in schema])
        groups = [list(map(_bounds_in_ns, group)) for group in groups]
    # A NaN fails every comparison except `!=`, whatever the minimum and maximum are. So a row group
    # is also kept if it may match with a NaN in a float column. Arrow substitutes the NaN for it.
    nans = {
        path: pc.field(*path) == pa.scalar(math.nan, type)
        for path, type in columns
        if types.is_floating(type)
    }
    try:
        if nans:
            possible = _possible(expression, list(nans.values()), schema)
            nans = {path: nan for i, (path, nan) in enumerate(nans.items()) if i in possible}
        found: list[int] = []
        for start in range(0, len(groups), _GROUPS_AT_ONCE):
            cases = [
                (i, case)
                for i, group in enumerate(groups[start : start + _GROUPS_AT_ONCE], start)
                for case in _cases(group, nans, plain)
            ]
            possible = _possible(expression, [case for _, case in cases], schema)
            found += sorted({cases[i][0] for i in possible})
    except pa.ArrowException:
        # A filter such as 1 / x may fail with a value in place of a column: look at the rows.
        return everything
    return found


def _in_ns(type: pa.DataType) -> pa.DataType:
    """Return a type with durations in nanoseconds, also in fields of structs."""
    if types.is_struct(type):
        return pa.struct([field.with_type(_in_ns(field.type)) for field in type])
    return pa.duration("ns") if types.is_duration(type) else type


def _bounds_in_ns(known: Statistics) -> Statistics:
    if not types.is_duration(known.type):
        return known
    ns = pa.duration("ns")
    try:
        low, high = (
            None if bound is None else bound.cast(ns) for bound in (known.minimum, known.maximum)
        )
    except pa.ArrowInvalid:  # too long
        low = high = None
    return known._replace(type=ns, minimum=low, maximum=high)


def _cases(
    group: Sequence[Statistics], nans: dict[Path, Expression], plain: bool
) -> Iterator[Expression]:
    """Yield guarantees; for each row of a row group, at least one of them holds."""
    import pyarrow.compute as pc

    known: list[tuple[Path, bool, Expression]] = []
    for one in group:
        # A single value can always be used: Arrow computes with it instead of reasoning with bounds.
        is_floating = types.is_floating(one.type)
        is_single = one.null_count == 0 and one.minimum == one.maximum and not is_floating
        if not (plain or is_single or not _is_number(one.type)):
            one = one._replace(minimum=None, maximum=None)
        says = guarantee(one)
        may_be_nan = is_floating and one.null_count < one.num_rows
        known.append((one.path, may_be_nan, pc.scalar(True) if says is None else says))
    yield _all([pc.scalar(True), *(says for _, _, says in known)])
    free_of_nan = [says for _, may_be_nan, says in known if not may_be_nan]
    for path, may_be_nan, _ in known:
        if may_be_nan and path in nans:
            yield _all([nans[path], *free_of_nan])


def _possible(
    expression: Expression, guarantees: Sequence[Expression], schema: pa.Schema
) -> set[int]:
    """Return the indices of the guarantees under which the expression may be true."""
    from pyarrow.dataset import FileSystemDataset, IpcFileFormat
    from pyarrow.fs import LocalFileSystem

    # Nothing is opened, but a fragment needs a format, a filesystem and a path.
    format, filesystem = IpcFileFormat(), LocalFileSystem()
    fragments = [
        format.make_fragment(str(i), filesystem, partition_expression=one)
        for i, one in enumerate(guarantees)
    ]
    dataset = FileSystemDataset(fragments, schema, format, filesystem)
    return {int(fragment.path) for fragment in dataset.get_fragments(expression)}


def _is_plain(text: str, paths: Sequence[Path]) -> bool:
    """Tell whether an expression compares columns only with values, and none of them is NaN.

    Otherwise, bounds of numbers cannot be used. Given `x <= 6`, Arrow considers `x < nan` true, and
    so `~(x < nan)` false. It also ignores casts from float64 to float32, which round. A NaN may
    come from a function or from a column on the right-hand side of a comparison, too.
    """
    text = _tokens(text, paths)
    names = [path[0] if len(path) == 1 else f"nested_{i}" for i, path in enumerate(paths)]
    name = "|".join(map(re.escape, names))
    return (
        PLAIN_FUNCTIONS.issuperset(FUNCTION.findall(text))
        and not NAN.search(text)
        and not (name and re.search(rf"[=<>] ({name})\)", text))
    )


def _is_number(type: pa.DataType) -> bool:
    return any(is_kind(type) for is_kind in (types.is_integer, types.is_floating, types.is_decimal))


def _all(expressions: Sequence[Expression]) -> Expression:
    return functools.reduce(operator.and_, expressions)


def matching_rows(table: pa.Table, expression: Expression) -> list[int]:
    """Return the numbers of the rows for which `expression` is true."""
    name = "#".join(table.column_names) + "#"  # not the name of a column
    numbered = table.append_column(name, pa.array(range(table.num_rows), pa.int64()))
    return filter_table(numbered, expression)[name].to_pylist()


def filter_table(table: pa.Table, expression: Expression) -> pa.Table:
    """Return the rows of `table` for which `expression` is true, in order."""
    return table.filter(expression)


def mask_of(batch: pa.RecordBatch, expression: Expression) -> pa.BooleanArray:
    """Return the value of a boolean expression for each row of a batch."""
    from pyarrow import acero  # takes long to import

    steps = [
        acero.Declaration("table_source", acero.TableSourceNodeOptions(pa.table(batch))),
        acero.Declaration("project", acero.ProjectNodeOptions([expression], ["mask"])),
    ]
    # The order of rows is that of the batch if there is one thread.
    found = acero.Declaration.from_sequence(steps).to_table(use_threads=False)
    return found["mask"].combine_chunks()


def filter_batch(batch: pa.RecordBatch, mask: pa.BooleanArray) -> pa.RecordBatch:
    """Return the rows of `batch` for which `mask` is true."""
    if batch.num_columns > _MANY_COLUMNS:
        return batch.filter(mask)
    # Arrow filters one array in half of the time that a column of a batch takes.
    columns = [column.filter(mask) for column in batch.columns]
    return pa.RecordBatch.from_arrays(columns, schema=batch.schema)


def project(batch: pa.RecordBatch, expressions: Any) -> pa.RecordBatch:
    """Compute expressions over a batch."""
    from pyarrow.dataset import InMemoryDataset

    table = pa.Table.from_batches([batch])
    return one_batch(InMemoryDataset(table).to_table(columns=expressions))

"""Filters, decided by Arrow: which columns one names, which row groups it may match, which rows.

Arrow prunes: each row group stands in as a fragment of a dataset that is never read, and what its
statistics say of every row is that fragment's partition expression. Pruning may be coarse, so
Arrow also filters the rows that are read. There is no walker over expressions here.

pyarrow.dataset takes long to import, so it is imported on use.
"""

from __future__ import annotations

import functools
import math
import operator
import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, Final, TypeAlias

import pyarrow as pa
from pyarrow import types

from ..errors import ColumnNotFoundError

if TYPE_CHECKING:
    from pyarrow.compute import Expression

__all__ = [
    "Statistics",
    "columns_of",
    "constant",
    "filter_table",
    "guarantee",
    "matching",
    "matching_rows",
    "to_expression",
]

Statistics: TypeAlias = tuple[pa.Field, int, int, pa.Scalar | None, pa.Scalar | None]
"""Of one column in one row group: field, num_rows, null_count, minimum, maximum."""

# An expression prints as text: `((x > 5) and invert(is_in(y, {value_set=...})))`.
NO_MATCH: Final = "No match for FieldRef.Name("
BY_POSITION: Final = re.compile(r'(?<!["\w])FieldPath\(\d')
FUNCTION: Final = re.compile(r"(?<!\w)(\w++)\(")
NAN: Final = re.compile(r"(?<!\w)nan(?!\w)")
# Functions that neither make a NaN nor round; and a type, as it stands before a list of values.
PLAIN_FUNCTIONS: Final = frozenset(
    {"invert", "is_in", "is_null", "is_valid", "match_like", "decimal128"}
)


def to_expression(filters: object) -> Expression:
    """The Arrow expression that `filters` stands for, in any form that pyarrow.parquet accepts."""
    from pyarrow.parquet import filters_to_expression

    try:
        return filters_to_expression(filters)
    except (TypeError, ValueError) as error:
        raise ValueError(
            "filters must be an Arrow expression, a list of (column, operator, value) tuples, "
            f"or a list of such lists; {filters!r} is none of them: {error}"
        ) from error


def columns_of(
    expression: Expression,
    names_in: Callable[[str], Iterable[str]],
    field: Callable[[str], pa.Field],
    names: Callable[[], Iterable[str]] | None = None,
    *,
    is_filter: bool = True,
) -> list[str]:
    """Names of the columns that `expression` refers to.

    pyarrow does not tell, but an expression prints the names it holds and binds only where they
    all are: of the columns whose name is in its text, those are wanted without which it no longer
    binds. `names_in(text)` gives the names of the file that occur in a text and `field(name)` a
    field, so that a wide file need not make all of them; `names()` gives all names, and is asked
    only for the message when one is missing.
    """
    text = str(expression)
    if BY_POSITION.search(text):
        raise ValueError(f"filter {_shown(text)} names a column by its position, not by its name")
    candidates = [field(name) for name in dict.fromkeys(names_in(text))]
    try:
        _bind(expression, candidates)
        needed = _needed(expression, candidates, [])
        if is_filter:
            # A scanner takes any expression as its filter; this one must be true or false.
            filter_table(pa.schema(needed).empty_table(), expression)
    except pa.ArrowException as error:
        message = str(error)
        if not message.startswith(NO_MATCH):
            raise ValueError(
                f"filter {_shown(text)} does not fit its columns: {message}"
            ) from error
        # pyarrow tells the name in no other way.
        missing = message.removeprefix(NO_MATCH).partition(") in ")[0]
        not_found = ColumnNotFoundError.for_name(missing, () if names is None else names())
        not_found.add_note(f"in the filter {_shown(text)}")
        raise not_found from error
    return [one.name for one in needed]


def _needed(
    expression: Expression, suspects: Sequence[pa.Field], others: Sequence[pa.Field]
) -> list[pa.Field]:
    """Those of `suspects` that the expression, which binds with all, cannot bind without."""
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
    """One line of `text`, which may hold a long list of values, for a message."""
    line = " ".join(text.split())
    return line if len(line) <= 200 else f"{line[:200]}..."


def guarantee(
    field: pa.Field,
    num_rows: int,
    null_count: int,
    minimum: pa.Scalar | None,
    maximum: pa.Scalar | None,
) -> Expression | None:
    """What statistics say of every row of a row group, NaN aside; None if that is nothing.

    The statistics of the format leave NaN out, unless it is the first value: `matching` knows.
    """
    import pyarrow.compute as pc

    column = pc.field(field.name)
    if null_count == num_rows:
        return column.is_null()
    # False for a NaN, and for a minimum above the maximum, which no reader of the format refuses.
    if minimum is None or maximum is None or not pc.less_equal(minimum, maximum).as_py():
        return column.is_valid() if null_count == 0 else None
    if minimum == maximum and not types.is_floating(field.type):
        # Arrow puts this value in the column's place. Not so for floats: -0.0 == 0.0.
        bounds = [column == minimum]
    else:
        bounds = [column >= minimum, column <= maximum]
    if null_count:
        # One by one: Arrow knows `bound | is_null`, but not `(bound & bound) | is_null`.
        bounds = [bound | column.is_null() for bound in bounds]
    return _all(bounds)


def constant(field: pa.Field, value: pa.Scalar, num_rows: int) -> Statistics:
    """Return the statistics of a column with the same value in all rows."""
    if value.is_valid:
        return field, num_rows, 0, value, value
    return field, num_rows, num_rows, None, None


def matching(
    expression: Expression, groups: Sequence[Sequence[Statistics]], schema: pa.Schema
) -> list[int]:
    """Indices of the row groups that may hold a match, ascending.

    `groups[i]` has what is known of row group `i`: statistics of columns of the filter, as many
    as there are. `schema` has the columns of the filter, no others.
    """
    everything = list(range(len(groups)))
    if not any(groups):
        return everything
    import pyarrow.compute as pc

    plain = _is_plain(str(expression), schema.names)
    # A NaN fails every comparison but `!=`, whatever the minimum and maximum are. So a row group
    # is kept, too, if it may match with a NaN in a float column. Arrow puts the NaN in its place.
    nans = {
        field.name: pc.field(field.name) == pa.scalar(math.nan, field.type)
        for field in schema
        if types.is_floating(field.type)
    }
    try:
        if nans:
            possible = _possible(expression, list(nans.values()), schema)
            nans = {name: nan for i, (name, nan) in enumerate(nans.items()) if i in possible}
        cases = [(i, case) for i, group in enumerate(groups) for case in _cases(group, nans, plain)]
        possible = _possible(expression, [case for _, case in cases], schema)
    except pa.ArrowException:
        # With a value in a column's place, the filter may fail, as in 1 / x: the rows will tell.
        return everything
    return sorted({cases[i][0] for i in possible})


def _cases(
    group: Sequence[Statistics], nans: dict[str, Expression], plain: bool
) -> Iterator[Expression]:
    """Guarantees, one of which holds for each row of a row group."""
    import pyarrow.compute as pc

    known: list[tuple[str, bool, Expression]] = []
    for field, num_rows, null_count, minimum, maximum in group:
        # A single value is trusted always: Arrow computes with it, instead of reasoning with bounds.
        is_single = null_count == 0 and minimum == maximum and not types.is_floating(field.type)
        if plain or is_single or not _is_number(field.type):
            says = guarantee(field, num_rows, null_count, minimum, maximum)
        else:
            says = guarantee(field, num_rows, null_count, None, None)
        may_be_nan = types.is_floating(field.type) and null_count < num_rows
        known.append((field.name, may_be_nan, pc.scalar(True) if says is None else says))
    yield _all([pc.scalar(True), *(says for _, _, says in known)])
    free_of_nan = [says for _, may_be_nan, says in known if not may_be_nan]
    for name, may_be_nan, _ in known:
        if may_be_nan and name in nans:
            yield _all([nans[name], *free_of_nan])


def _possible(
    expression: Expression, guarantees: Sequence[Expression], schema: pa.Schema
) -> set[int]:
    """Indices of the guarantees under which the expression may be true."""
    from pyarrow.dataset import FileSystemDataset, IpcFileFormat
    from pyarrow.fs import LocalFileSystem

    # Nothing is opened; a fragment must have a format, a filesystem and a path.
    format, filesystem = IpcFileFormat(), LocalFileSystem()
    fragments = [
        format.make_fragment(str(i), filesystem, partition_expression=one)
        for i, one in enumerate(guarantees)
    ]
    dataset = FileSystemDataset(fragments, schema, format, filesystem)
    return {int(fragment.path) for fragment in dataset.get_fragments(expression)}


def _is_plain(text: str, names: Iterable[str]) -> bool:
    """Whether an expression compares columns with values only, and none of them is NaN.

    Otherwise bounds of numbers cannot be trusted: given `x <= 6`, Arrow takes `x < nan` for true
    and so `~(x < nan)` for false; and it looks through casts from float64 to float32, which
    round. A NaN may also come from a function, or from a column on the right of a comparison.
    """
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
    """The rows of `table` for which `expression` is true, in their order."""
    return table.filter(expression)

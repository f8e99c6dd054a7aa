"""scan_polars: a dataset as a Polars LazyFrame, with projection, predicate and limit pushdown.

Polars filters the rows. Before that, its predicate is converted to an Arrow expression, which skips
row groups and partitions that cannot match. This expression may keep too many rows, but never too
few, so parts that are unknown or that Arrow evaluates differently are left out.

Polars has no public way to inspect an expression, but it returns the inputs of one and compares
two. So an expression is recognized by building it again from its inputs.

Polars is optional and imported on use.
"""

from __future__ import annotations

import math
import operator
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Final, NamedTuple, TypeAlias

import pyarrow as pa
from pyarrow import types

from ..errors import UnsupportedError
from ..memory import MemoryLimit

if TYPE_CHECKING:
    import polars as pl
    from pyarrow.compute import Expression

__all__ = ["scan_polars"]

# Rows per frame, if Polars does not choose.
BATCH_ROWS: Final = 65536

# Polars stores strings as views, and Arrow makes these in less than half of Polars' time.
VIEWS: Final = {pa.string(): pa.string_view(), pa.binary(): pa.binary_view()}

Operator: TypeAlias = Callable[[Any, Any], Any]

# The comparison that is true where another one is false.
OPPOSITE: Final[dict[Operator, Operator]] = {
    operator.eq: operator.ne,
    operator.ne: operator.eq,
    operator.lt: operator.ge,
    operator.ge: operator.lt,
    operator.gt: operator.le,
    operator.le: operator.gt,
}
# The operators of the lower and the upper bound of `is_between`.
BETWEEN: Final[dict[Any, tuple[Operator, Operator]]] = {
    "both": (operator.ge, operator.le),
    "left": (operator.ge, operator.lt),
    "right": (operator.gt, operator.le),
    "none": (operator.gt, operator.lt),
}


def scan_polars(
    source: Any,
    *,
    filesystem: object = None,
    schema: pa.Schema | None = None,
    partitioning: Any = "hive",
    unify: bool = True,
    follow_links: bool = False,
    use_threads: bool = True,
    memory_limit: MemoryLimit = None,
    strict: bool = True,
) -> pl.LazyFrame:
    """Scan Mosaic files as a Polars LazyFrame.

    A query reads only the columns that it uses. It skips row groups and partitions that cannot
    match its filters, and those behind the rows that `head` returns.

    Parameters
    ----------
    source, filesystem, schema, partitioning, unify, follow_links
        Which files to read, and with which schema; see `MosaicDataset`.
    use_threads : bool, default True
        Read and decode in several threads.
    memory_limit, strict
        As in `MosaicFile`. The limit holds for each batch that Polars gets.

    Returns
    -------
    polars.LazyFrame

    Examples
    --------
    >>> import tempfile, polars as pl, pyarrow as pa, fastmosaic as fm
    >>> with tempfile.TemporaryDirectory() as path:
    ...     table = pa.table({"id": [1, 2, 3], "price": [9.0, 10.0, 11.0]})
    ...     fm.write_table(table, f"{path}/a.mosaic", write_statistics=["id"])
    ...     sales = fm.scan_polars(path)
    ...     sales.filter(pl.col("id") > 1).select(pl.col("price").sum()).collect().item()
    21.0
    """
    try:
        from polars.io.plugins import register_io_source
    except ImportError as error:
        raise ImportError(
            "scan_polars requires Polars: pip install 'fastmosaic[polars]'"
        ) from error
    from ..dataset.fileset import FileSet

    files = FileSet(
        source,
        filesystem=filesystem,
        schema=schema,
        partitioning=partitioning,
        unify=unify,
        memory_limit=memory_limit,
        strict=strict,
        follow_links=follow_links,
    )
    dtypes = _to_dtypes(files.schema)
    may_skip = files.may_skip()

    def frames(
        with_columns: list[str] | None,
        predicate: pl.Expr | None,
        n_rows: int | None,
        batch_size: int | None,
    ) -> Iterator[pl.DataFrame]:
        columns, filters = with_columns, None
        if predicate is not None:
            if columns is not None:
                columns = list(dict.fromkeys([*columns, *predicate.meta.root_names()]))
            # Polars counts rows before it filters them: none of the first `n_rows` may be skipped.
            if may_skip and n_rows is None:
                filters = _pruning(predicate, files.columns.to_arrow(), dtypes)
        query = replace(files.query(columns, filters, limit=n_rows), is_exact=False)
        to_frame = _ToFrame(query.result)
        for rows in files.iter_batches(query, batch_size or BATCH_ROWS, use_threads):
            frame = to_frame(rows)
            if predicate is not None:
                frame = frame.filter(predicate)
            yield frame if with_columns is None else frame.select(with_columns)

    return register_io_source(frames, schema=dtypes, validate_schema=True, is_pure=True)


def _to_dtypes(schema: pa.Schema) -> pl.Schema:
    import polars as pl

    try:
        return pl.Schema(schema)
    except (pl.exceptions.PanicException, pl.exceptions.PolarsError):
        for field in schema:
            try:
                pl.Schema(pa.schema([field]))
            except (pl.exceptions.PanicException, pl.exceptions.PolarsError) as error:
                raise UnsupportedError(
                    f"Polars has no type for {field.type}; pass a schema= without this column",
                    column=field.name,
                ) from error
        raise


class _ToFrame:
    """Converts record batches of one schema to frames."""

    def __init__(self, schema: pa.Schema) -> None:
        self._strings = [place for place, type in enumerate(schema.types) if type in VIEWS]
        self._schema = schema
        if self._strings:
            fields = list(schema)
            for place in self._strings:
                fields[place] = fields[place].with_type(VIEWS[fields[place].type])
            self._schema = pa.schema(fields)

    def __call__(self, rows: pa.RecordBatch) -> pl.DataFrame:
        import polars as pl

        # Without columns, Arrow's exchange interface does not pass on the number of rows.
        if not rows.num_columns:
            return pl.DataFrame(height=rows.num_rows)
        if self._strings:
            columns = rows.columns
            for place in self._strings:
                columns[place] = columns[place].cast(self._schema.field(place).type)
            rows = pa.RecordBatch.from_arrays(columns, schema=self._schema)
        return pl.DataFrame(rows)


def _pruning(predicate: pl.Expr, schema: pa.Schema, dtypes: pl.Schema) -> Expression | None:
    """Return an Arrow expression that is true at least where `predicate` is, or None.

    `schema` and `dtypes` are the schema of the dataset, as it is filtered and in Polars.
    """
    try:
        return _Pruning(schema, dtypes).where(predicate, True)
    except RecursionError:
        return None


class _Operand(NamedTuple):
    """A column, or a field of structs, that an expression refers to."""

    path: tuple[str, ...]
    type: pa.DataType
    dtype: pl.DataType

    @property
    def field(self) -> Expression:
        import pyarrow.compute as pc

        return pc.field(*self.path)

    def values(self, literal: pl.Expr) -> pa.Array | None:
        """Return the values of a literal in the type of the column, or None if that is not exact."""
        import polars as pl

        if not literal.meta.is_literal(allow_aliasing=True):
            return None
        series = pl.select(literal).to_series()
        if series.dtype == pl.List and series.null_count() == 0:
            series = series[0]
        if self.dtype in (pl.Categorical, pl.Enum):
            # They are stored as strings, and Polars compares them with strings.
            if series.dtype not in (self.dtype, pl.String):
                return None
            series = series.cast(pl.String)
        elif not self._is_comparable(series.dtype):
            return None
        try:
            return series.to_arrow().cast(self.type)
        except pa.ArrowException:
            return None

    def _is_comparable(self, dtype: pl.DataType) -> bool:
        import polars as pl

        # Polars has made the types equal already, if necessary by a cast of the column. Decimals
        # with different scales can still be compared exactly.
        same = self.dtype == dtype or (self.dtype.is_decimal() and dtype.is_decimal())
        simple = self.dtype.is_numeric() or self.dtype.is_temporal()
        return same and (simple or self.dtype in (pl.Boolean, pl.String, pl.Binary))


@dataclass(frozen=True, slots=True)
class _Pruning:
    schema: pa.Schema
    dtypes: pl.Schema

    def where(self, predicate: pl.Expr, outcome: bool) -> Expression | None:
        """Return an expression that is true at least where `predicate` has this outcome, not null."""
        is_made_by = predicate.meta.eq
        match predicate.meta.pop()[::-1]:
            case []:
                return self._flag(predicate, outcome)
            case [one]:
                if is_made_by(one.not_()):
                    return self.where(one, not outcome)
                if is_made_by(one.is_null()):
                    return self._null(one, outcome)
                if is_made_by(one.is_not_null()):
                    return self._null(one, not outcome)
                return self._flag(predicate, outcome)  # a field of a struct
            case [left, right]:
                if is_made_by(left & right):
                    return self._joined(left, right, outcome, operator.and_)
                if is_made_by(left | right):
                    return self._joined(left, right, outcome, operator.or_)
                for compare, opposite in OPPOSITE.items():
                    if is_made_by(compare(left, right)):
                        return self._compared(left, compare if outcome else opposite, right)
                if is_made_by(left.eq_missing(right)):
                    return self._equal(left, right, outcome)
                if is_made_by(left.ne_missing(right)):
                    return self._equal(left, right, not outcome)
                if any(is_made_by(left.is_in(right, nulls_equal=how)) for how in (False, True)):
                    return self._among(left, right, outcome)
            case [one, low, high]:
                for closed, (above, below) in BETWEEN.items():
                    if is_made_by(one.is_between(low, high, closed=closed)):
                        return self.where(above(one, low) & below(one, high), outcome)
        return None

    def _joined(
        self, left: pl.Expr, right: pl.Expr, outcome: bool, join: Operator
    ) -> Expression | None:
        first, second = self.where(left, outcome), self.where(right, outcome)
        # `a & b` is true where both are true, and false where one of them is false.
        if outcome == (join is operator.and_):
            if first is None or second is None:
                return second if first is None else first
            return first & second
        return None if first is None or second is None else first | second

    def _flag(self, flag: pl.Expr, outcome: bool) -> Expression | None:
        import polars as pl

        column = self._column(flag)
        if column is None or column.dtype != pl.Boolean:
            return None
        return column.field if outcome else ~column.field

    def _null(self, value: pl.Expr, outcome: bool) -> Expression | None:
        column = self._column(value)
        if column is None:
            return None
        return column.field.is_null() if outcome else column.field.is_valid()

    def _compared(self, value: pl.Expr, compare: Operator, literal: pl.Expr) -> Expression | None:
        import polars as pl

        column = self._column(value)
        values = None if column is None else column.values(literal)
        if column is None or values is None or len(values) != 1 or values.null_count:
            return None
        field = column.field
        if isinstance(column.dtype, pl.Enum) and compare not in (operator.eq, operator.ne):
            # Categories are compared by their position.
            categories = column.dtype.categories.to_list()
            if (given := values[0].as_py()) not in categories:
                return None
            place = categories.index(given)
            kept = [one for i, one in enumerate(categories) if compare(i, place)]
            return field.isin(pa.array(kept, values.type))
        if not types.is_floating(values.type):
            return compare(field, values[0])
        if math.isnan(values[0].as_py()):
            return None
        # In Polars, NaN is greater than all numbers. In Arrow, all comparisons with it are false.
        if compare in (operator.gt, operator.ge):
            return ~OPPOSITE[compare](field, values[0])
        return compare(field, values[0])

    def _equal(self, value: pl.Expr, literal: pl.Expr, outcome: bool) -> Expression | None:
        """Compare with a literal such that two nulls are equal."""
        if outcome:
            return self._compared(value, operator.eq, literal)
        differs, null = self._compared(value, operator.ne, literal), self._null(value, True)
        return None if differs is None or null is None else differs | null

    def _among(self, value: pl.Expr, collection: pl.Expr, outcome: bool) -> Expression | None:
        column = self._column(value)
        values = None if column is None else column.values(collection)
        # Arrow compares the bits of values, and there are two zeros.
        if column is None or values is None or types.is_floating(values.type):
            return None
        among = column.field.isin(values.drop_null())
        if not outcome:
            return ~among
        return among | column.field.is_null() if values.null_count else among

    def _column(self, value: pl.Expr) -> _Operand | None:
        """Return the column, or the field of structs, that an expression consists of."""
        import polars as pl

        name = value.meta.output_name(raise_if_undetermined=False)
        if name is None:
            return None
        if value.meta.is_column():
            return _Operand((name,), self.schema.field(name).type, self.dtypes[name])
        match value.meta.pop():
            case [struct] if value.meta.eq(struct.struct.field(name)):
                parent = self._column(struct)
                if parent is None or not isinstance(parent.dtype, pl.Struct):
                    return None
                dtypes: dict[str, Any] = {field.name: field.dtype for field in parent.dtype.fields}
                return _Operand((*parent.path, name), parent.type.field(name).type, dtypes[name])
        return None

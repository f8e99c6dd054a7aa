"""MosaicTable: a directory of Mosaic files that changes safely."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any, Literal, Unpack

import pyarrow as pa

from ..dataset.arrow import MosaicDataset
from ..dataset.compact import DEFAULT_COMPACT_BYTES
from ..dataset.fileset import FileSet
from ..dataset.snapshot import Snapshot
from ..dataset.version import BaseFile
from ..dataset.write import DEFAULT_MAX_BYTES_PER_FILE
from ..display.summary import Summary
from ..display.text import counted, human_size
from ..errors import ColumnNotFoundError
from ..file.batches import open_batches
from ..file.concat import Mode, check_mode
from ..file.options import WriteOptions, accepts_options, check_names
from ..memory import MemoryLimit
from .changes import Append, Change, DropColumns, Restore, State
from .column_files import write_column_files
from .columns import ExpressionColumns, FunctionColumns, JoinedValues, check_new
from .commit import TableChange, commit_change
from .create import adopt, create_new, existing_files
from .declare import DeclareColumns, check_declarable
from .overwrite import AllRows, MatchingRows, Region, SamePartitions
from .rewrite import Rewriter
from .rows import fitting_of, write_rows
from .store import TableStore
from .vacuum import DEFAULT_AGE, VacuumReport, remove_files, vacuum
from .verify import TableReport, checks_of
from .write import overwriting


@dataclass(frozen=True, slots=True)
class VersionInfo:
    """A version of a table, as `MosaicTable.history` lists it."""

    version: int
    time: datetime
    operation: str
    summary: Mapping[str, Any]
    num_files: int
    num_rows: int


class MosaicTable:
    """A directory of Mosaic files that changes safely.

    Each change makes a new version. Readers see one version, whatever happens meanwhile, and earlier
    versions can be read until `vacuum` removes them. Several processes may change a table at the same
    time: a change is committed if no other one has touched the same columns of the same files, and
    raises `ConflictError` otherwise. A process that is killed leaves no trace in the table.

    Columns are added without rewriting the files that are there: their values are stored in column
    files beside them.

    Parameters
    ----------
    path : path or URI
        The directory of the table.
    version : int, optional
        The version to read; by default the newest one. A table at an earlier version cannot be
        changed; use `restore`.
    filesystem : pyarrow or fsspec filesystem, optional
        The filesystem of the path; by default the local one, or that of the URI.
    single_writer : bool, default False
        Accept storage that cannot create an object only if it is absent. Two processes that change the
        table at the same time could then lose a change.

    Examples
    --------
    >>> import tempfile, pyarrow as pa, pyarrow.compute as pc, fastmosaic as fm
    >>> with tempfile.TemporaryDirectory() as path:
    ...     table = fm.MosaicTable.create(f"{path}/t", pa.table({"a": [1.0, 2.0], "b": [2.0, 4.0]}))
    ...     change = table.add_columns({"ratio": pc.field("a") / pc.field("b")})
    ...     change = table.append(pa.table({"a": [9.0]}))
    ...     table.version, fm.read_table(f"{path}/t").to_pylist()[1:]
    (3, [{'a': 2.0, 'b': 4.0, 'ratio': 0.5}, {'a': 9.0, 'b': None, 'ratio': None}])
    """

    def __init__(
        self,
        path: str | os.PathLike[str],
        version: int | None = None,
        *,
        filesystem: object = None,
        single_writer: bool = False,
    ) -> None:
        store = TableStore.of(path, filesystem, single_writer)
        self._begin(store, store.snapshot(version), is_pinned=version is not None)

    def _begin(self, store: TableStore, snapshot: Snapshot, *, is_pinned: bool = False) -> None:
        self._store = store
        self._snapshot = snapshot
        self._is_pinned = is_pinned

    @classmethod
    @accepts_options
    def create(
        cls,
        path: str | os.PathLike[str],
        data: Any = None,
        *,
        partitioning: str | Sequence[str] | None = None,
        filesystem: object = None,
        single_writer: bool = False,
        **options: Unpack[WriteOptions],
    ) -> MosaicTable:
        """Make a directory a table.

        Parameters
        ----------
        path : path or URI
            The directory. If it contains Mosaic files, they become version 1, and `data` must not be
            given. The files are not changed.
        data : pyarrow.Schema, table, record batch, reader, dataset, data frame, or iterable
            The columns of a new table, or its first rows. Rows are streamed.
        partitioning : str or list of str, optional
            Columns whose values become directories, `key=value`. They are not stored in the files.
        filesystem, single_writer
            As for `MosaicTable`.
        **options
            The options of `MosaicWriter`, which writes the files.

        Examples
        --------
        >>> import tempfile, pyarrow as pa, fastmosaic as fm
        >>> with tempfile.TemporaryDirectory() as path:
        ...     schema = pa.schema({"day": pa.date32(), "price": pa.float64()})
        ...     fm.MosaicTable.create(f"{path}/prices", schema, partitioning="day").schema.names
        ['price', 'day']
        """
        check_names(options, cls.create)
        store = TableStore.of(path, filesystem, single_writer)
        store.check_writable()
        if store.versions():
            raise FileExistsError(f"{store.name} is a table already; open it with MosaicTable")
        made = cls.__new__(cls)
        existing = existing_files(store)
        if data is None or existing:
            made._begin(store, adopt(store, existing, data, partitioning))
        else:
            made._begin(store, create_new(store, data, partitioning, options))
        return made

    def __repr__(self) -> str:
        return self._summary().to_text()

    def _repr_html_(self) -> str:
        return self._summary().to_html()

    def _summary(self) -> Summary:
        version = self._snapshot.version
        parts = [part for file in version.files for part in file.parts]
        rows, files = counted(version.num_rows, "row"), counted(len(version.files), "file")
        num_column_files = len(parts) - len(version.files)
        notes = [
            *([counted(num_column_files, "column file")] if num_column_files else []),
            human_size(sum(part.size for part in parts)),
            f"{version.operation}, {version.time:%Y-%m-%d %H:%M} UTC",
            *(
                [f"partitioned by {', '.join(version.partitioning)}"]
                if version.partitioning
                else []
            ),
        ]
        # The columns are in objects of their own: of a remote table, showing it requests nothing.
        is_local = self._store.filesystem is None
        if not is_local:
            notes.append("columns: see schema")
        return Summary(
            "MosaicTable",
            [f"version {version.number}", f"{rows} in {files}"],
            self._store.name,
            notes,
            (lambda: self.schema) if is_local else None,
        )

    # ---- what there is

    @property
    def version(self) -> int:
        """The number of the version that this object reads."""
        return self._snapshot.version.number

    @property
    def num_rows(self) -> int:
        """The number of rows."""
        return self._snapshot.version.num_rows

    @property
    def schema(self) -> pa.Schema:
        """All columns: those of the files, then the partition columns."""
        return self._files().schema

    @property
    def files(self) -> list[str]:
        """Paths of the base files, relative to the table, in the order of their rows."""
        return [file.path for file in self._snapshot.version.files]

    def refresh(self) -> MosaicTable:
        """Move to the newest version; return this object."""
        self._snapshot = self._store.snapshot()
        self._is_pinned = False
        return self

    def history(self) -> list[VersionInfo]:
        """Return the versions that there are, oldest first."""
        found = []
        for number in self._store.versions():
            try:
                version = self._store.read(number)
            except FileNotFoundError:
                continue  # vacuum has removed it meanwhile
            found.append(
                VersionInfo(
                    number,
                    version.time,
                    version.operation,
                    version.summary,
                    len(version.files),
                    version.num_rows,
                )
            )
        return found

    def read(
        self,
        columns: Sequence[str] | None = None,
        *,
        filters: Any = None,
        use_threads: bool = True,
        memory_limit: MemoryLimit = None,
    ) -> pa.Table:
        """Read this version; the parameters are those of `MosaicFile.read`."""
        return self._files(memory_limit=memory_limit).read(columns, filters, use_threads)

    def dataset(self, **options: Any) -> MosaicDataset:
        """Return this version as a dataset, for Arrow, DuckDB and Polars.

        `options` are those of `MosaicDataset`.
        """
        return MosaicDataset(self._snapshot, **options)

    def verify(self, *, deep: bool = True) -> TableReport:
        """Check all files of this version: the version itself, schemas, base files and column files.

        Each file is checked as `fastmosaic.verify` does, and must be the one that the version names: of
        that size, with these rows and columns, and, if it is a column file, made for its base file,
        with the same row groups. Problems are returned in the report, not raised.

        Parameters
        ----------
        deep : bool, default True
            Read and decode all data. Otherwise, only the metadata of files is checked.

        Examples
        --------
        >>> import tempfile, pyarrow as pa, fastmosaic as fm
        >>> with tempfile.TemporaryDirectory() as path:
        ...     table = fm.MosaicTable.create(path, pa.table({"id": [1, 2]}))
        ...     table.verify().ok
        True
        """
        reports = tuple(check.run() for check in checks_of(self._snapshot, deep=deep))
        return TableReport(self.version, reports)

    def _files(self, **options: Any) -> FileSet:
        return FileSet(self._snapshot, **options)

    # ---- changes

    @accepts_options
    def append(
        self,
        data: Any,
        *,
        max_rows_per_file: int | None = None,
        max_bytes_per_file: int | None = DEFAULT_MAX_BYTES_PER_FILE,
        **options: Unpack[WriteOptions],
    ) -> TableChange:
        """Append rows.

        Parameters
        ----------
        data : table, record batch, reader, dataset, data frame, or iterable
            The rows, which are streamed. Columns are matched by name. Columns that the data lacks are
            null; columns that the table lacks are an error: add them first. Types are cast if no value
            changes.
        max_rows_per_file, max_bytes_per_file
            As for `write_dataset`.
        **options
            The options of `MosaicWriter`, which writes the files.
        """
        check_names(options, self.append)
        changing = Changing(self)
        limits = max_rows_per_file, max_bytes_per_file
        return changing.commit(Append(self._write(data, changing.state, limits, options)))

    def _write(
        self,
        data: Any,
        state: State,
        limits: tuple[int | None, int | None],
        options: WriteOptions,
    ) -> list[BaseFile]:
        """Write rows as base files; `limits` are the most rows and bytes of each."""
        schema, items = open_batches(data)
        return write_rows(
            self._store,
            state,
            fitting_of(schema, FileSet(state.snapshot), state.snapshot),
            items,
            partitioning=state.version.partitioning,
            max_rows_per_file=limits[0],
            max_bytes_per_file=limits[1],
            options=options,
        )

    @accepts_options
    def overwrite(
        self,
        data: Any,
        *,
        filters: Any = None,
        partitions: Literal["dynamic"] | None = None,
        max_rows_per_file: int | None = None,
        max_bytes_per_file: int | None = DEFAULT_MAX_BYTES_PER_FILE,
        **options: Unpack[WriteOptions],
    ) -> TableChange:
        """Replace rows by new ones, in one version. All columns stay.

        If others have meanwhile changed rows that would be replaced, or have added such rows, it raises
        `ConflictError`.

        Parameters
        ----------
        data : table, record batch, reader, dataset, data frame, or iterable
            The new rows, as for `append`.
        filters : optional
            Replace only the rows that match, in any form that `MosaicFile.read` accepts. By default all
            rows are replaced. The new rows need not match.
        partitions : {"dynamic"}, optional
            "dynamic" replaces the rows of those partitions that the new rows have, and of no others.
        max_rows_per_file, max_bytes_per_file
            As for `write_dataset`.
        **options
            The options of `MosaicWriter`, which writes the files.

        Examples
        --------
        >>> import tempfile, pyarrow as pa, fastmosaic as fm
        >>> rows = pa.table({"day": ["mo", "tu"], "n": [1, 2]})
        >>> with tempfile.TemporaryDirectory() as path:
        ...     table = fm.MosaicTable.create(path, rows, partitioning="day")
        ...     change = table.overwrite(pa.table({"day": ["tu"], "n": [3]}), partitions="dynamic")
        ...     table.read().to_pydict()
        {'n': [1, 3], 'day': ['mo', 'tu']}
        """
        check_names(options, self.overwrite)
        if partitions not in (None, "dynamic"):
            raise ValueError(f"partitions must be 'dynamic' or None, not {partitions!r}")
        if partitions is not None and filters is not None:
            raise ValueError("choose the rows to replace with filters or partitions, not with both")
        if partitions is not None:
            region: Region = SamePartitions()
        else:
            region = AllRows() if filters is None else MatchingRows(filters)
        changing = Changing(self)
        files = self._write(data, changing.state, (max_rows_per_file, max_bytes_per_file), options)
        return changing.commit(overwriting(self._store, changing.state, region, files, options))

    @accepts_options
    def add_columns(
        self,
        values: Any,
        *,
        inputs: Sequence[str] | None = None,
        schema: pa.Schema | None = None,
        on: str | Sequence[str] | None = None,
        replace: bool = False,
        progress: bool | Callable[[Any], object] = False,
        **options: Unpack[WriteOptions],
    ) -> TableChange:
        """Add columns to all rows, without rewriting the files that are there.

        Rows that others append meanwhile have nulls in the new columns; the result says in how many
        files.

        Parameters
        ----------
        values : function, dict, data, or pyarrow.Schema
            A function of a record batch of `inputs` that returns a record batch, a table, a data frame
            or a dictionary with the new columns of the same rows; several threads call it at the same
            time. Or a dictionary of names and Arrow expressions, or constants. Or, with `on`, a table,
            reader, dataset or data frame with keys and values. Or a `pyarrow.Schema` of columns that
            are null in all rows, which writes no file.
        inputs : list of str, optional
            The columns that the function gets; by default all. No others are read.
        schema : pyarrow.Schema, optional
            The columns that the function returns; by default those of its first result.
        on : str or list of str, optional
            The key columns of `values`. Each key may occur once. Rows whose key does not occur get
            nulls.
        replace : bool, default False
            Replace columns that exist. Otherwise they are an error.
        progress : bool or callable, default False
            Show a progress bar on a terminal, or call a function with a `TableProgress` after each
            file.
        **options
            The options of `MosaicWriter`, which writes the column files.

        Examples
        --------
        >>> import tempfile, pyarrow as pa, pyarrow.compute as pc, fastmosaic as fm
        >>> with tempfile.TemporaryDirectory() as path:
        ...     table = fm.MosaicTable.create(path, pa.table({"id": [1, 2], "a": [3, 4]}))
        ...     change = table.add_columns({"double": pc.field("a") * 2})
        ...     change = table.add_columns(
        ...         lambda batch: {"sum": pc.add(batch["a"], batch["double"])}, inputs=["a", "double"]
        ...     )
        ...     change = table.add_columns(pa.table({"id": [2], "name": ["two"]}), on="id")
        ...     table.read().to_pylist()[1]
        {'id': 2, 'a': 4, 'double': 8, 'sum': 12, 'name': 'two'}
        """
        check_names(options, self.add_columns)
        changing = Changing(self)
        state = changing.state
        files = FileSet(state.snapshot)
        if isinstance(values, pa.Schema):
            check_declarable(values, files)
            return changing.commit(DeclareColumns(values, self._store.put_schema))
        if not state.version.files:
            raise ValueError(f"{self._store.name} has no rows to add columns to; append rows first")
        if on is not None:
            keys = [on] if isinstance(on, str) else list(on)
            new: Any = JoinedValues(values, keys, files)
        elif callable(values) and not isinstance(values, Mapping):
            new = FunctionColumns(values, inputs, schema)
        elif isinstance(values, Mapping):
            new = ExpressionColumns(values, files)
        else:
            raise TypeError(
                "values must be a function, a dictionary of expressions, or data with on=, "
                f"not an object of type {type(values).__name__}"
            )

        def check(names: Sequence[str]) -> None:
            check_new(names, files, replace)

        change = write_column_files(
            self._store, state, files, new, check, progress=progress, **options
        )
        return changing.commit(change)

    def drop_columns(self, columns: str | Sequence[str]) -> TableChange:
        """Drop columns. The files are not rewritten; `fold` does that, to free the space."""
        changing = Changing(self)
        names = [columns] if isinstance(columns, str) else list(dict.fromkeys(columns))
        files = FileSet(changing.state.snapshot)
        for name in names:
            if name in files.partitions.names:
                raise ValueError(f"{name!r} is a partition column, which cannot be dropped")
            if files.columns.find(name) is None:
                raise ColumnNotFoundError.for_name(
                    name, files.columns.similar(name), file=self._store.name
                )
        if len(names) == len(files.columns.names()) - len(files.partitions):
            raise ValueError("a table must have a column: not all of them can be dropped")
        return changing.commit(DropColumns(names))

    @accepts_options
    def delete(
        self,
        filters: Any,
        *,
        progress: bool | Callable[[Any], object] = False,
        **options: Unpack[WriteOptions],
    ) -> TableChange:
        """Delete the rows that match `filters`, in any form that `MosaicFile.read` accepts.

        Files that contain such rows are rewritten without them, with their column files folded in.
        Rows for which the condition is null stay. All columns stay, also if no row is left.
        """
        check_names(options, self.delete)
        if filters is None:
            raise ValueError("filters must say which rows to delete")
        return self._rewrite(lambda rewriter: rewriter.delete(filters, progress), options)

    @accepts_options
    def compact(
        self,
        *,
        target_bytes: int = DEFAULT_COMPACT_BYTES,
        mode: Mode = "auto",
        progress: bool | Callable[[Any], object] = False,
        **options: Unpack[WriteOptions],
    ) -> TableChange:
        """Merge small files of each partition into larger ones; the order of rows stays.

        Row groups are copied as they are if that is possible. Files that another writer changes at the
        same time stay as they are.

        Parameters
        ----------
        target_bytes : int
            Approximate size of the new files. Default: 256 MiB.
        mode : {"auto", "copy", "rewrite"}, default "auto"
            As for `concat`. Files with column files are always rewritten, which folds these in.
        progress : bool or callable, default False
            As for `add_columns`.
        **options
            The options of `MosaicWriter`.
        """
        check_names(options, self.compact)
        check_mode(mode)
        return self._rewrite(
            lambda rewriter: rewriter.compact(target_bytes, mode, progress), options
        )

    @accepts_options
    def fold(
        self,
        *,
        progress: bool | Callable[[Any], object] = False,
        **options: Unpack[WriteOptions],
    ) -> TableChange:
        """Rewrite each base file that has column files, or columns that were dropped, as one file."""
        check_names(options, self.fold)
        return self._rewrite(lambda rewriter: rewriter.fold(progress), options)

    def _rewrite(self, rewrite: Callable[[Rewriter], Change], options: WriteOptions) -> TableChange:
        """Commit what `rewrite` has written; if it fails, no file is left."""
        changing = Changing(self)
        files = FileSet(changing.state.snapshot)
        with self._store.new_files() as open_file:
            change = rewrite(Rewriter(self._store, changing.state, files, options, open_file))
        return changing.commit(change)

    def restore(self, version: int) -> TableChange:
        """Return to the state of an earlier version, as a new version."""
        changing = Changing(self)
        earlier = self._store.snapshot(version).version
        if earlier.number == changing.state.number:
            return TableChange(earlier.number, "restore", committed=False)
        return changing.commit(Restore(earlier))

    def vacuum(
        self,
        older_than: timedelta | float = DEFAULT_AGE,
        *,
        keep_versions: int = 1,
        dry_run: bool = False,
    ) -> VacuumReport:
        """Remove versions that are too old, and files that no version names.

        A version is as old as the one that replaced it: what was the newest version a day ago can be
        read with `older_than` of a day.

        Parameters
        ----------
        older_than : timedelta or number of seconds, default 7 days
            Nothing younger is removed. It must be longer than the longest operation, because the files
            of an operation that is not yet committed are named by no version. The files of a job of
            Spark stay in any case, until it has written nothing for 7 days.
        keep_versions : int, default 1
            How many of the newest versions to keep, however old they are.
        dry_run : bool, default False
            Return what would be removed, and remove nothing.
        """
        return Changing(self).vacuum(older_than, keep_versions, dry_run)


class Changing:
    """A change of an open table: what it begins with, and what moves the table to the version it makes.

    store     where the table is
    state     the version that is read, the newest one when the change began
    snapshot  the same version, or the newest one after `commit` or `vacuum`
    """

    def __init__(self, table: MosaicTable) -> None:
        if table._is_pinned:
            raise ValueError(
                f"{table._store.name} is open at version {table.version}, which cannot be changed; open "
                f"it without version=, or return to this version with restore({table.version})"
            )
        self._table = table
        self.store = table._store
        self.store.check_writable()
        # Other threads may move the table meanwhile.
        self._move(self.store.snapshot())
        self.state = State(self.snapshot)

    def commit(self, change: Change) -> TableChange:
        snapshot, done = commit_change(self.store, change, self.state)
        self._move(snapshot)
        return done

    def vacuum(
        self,
        older_than: timedelta | float,
        keep_versions: int,
        dry_run: bool,
        remove: Callable[[TableStore, Sequence[str]], None] = remove_files,
    ) -> VacuumReport:
        snapshot, report = vacuum(self.store, older_than, keep_versions, dry_run, remove)
        self._move(snapshot)
        return report

    def _move(self, snapshot: Snapshot) -> None:
        self.snapshot = self._table._snapshot = snapshot

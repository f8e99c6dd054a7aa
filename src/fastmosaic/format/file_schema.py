"""FileSchema: the columns of a file as the user sees them, and which stored columns they need.

Columns have plain types here. `user_schema` puts the user's own types on the result.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Any, Final

import pyarrow as pa

from ..errors import ColumnNotFoundError, CorruptFileError, UnsupportedError
from .column_set import ColumnSet
from .paths import Path, inside, leaves, restricted
from .schema import SchemaBlock
from .shred import Shape, has_range, is_shredded, names_size, shape_of
from .types import plain_type
from .user_schema import Attached

_SMALL_NAMES: Final = 1 << 20  # bytes of all names of a column that are always looked for
# Selections of columns that are kept: looking 10,000 columns up takes longer than decoding a row of them.
KEPT_SELECTIONS: Final = 4


class Projection:
    """Columns of a file to read, and how to make them from stored columns.

    schema     the columns, with plain types
    positions  the stored columns that are read
    stored     their schema
    """

    __slots__ = ("_parts", "positions", "schema", "stored")

    def __init__(
        self,
        schema: pa.Schema,
        positions: Sequence[int],
        stored: pa.Schema,
        parts: Sequence[tuple[Shape, list[int | None]]] | None = None,
    ) -> None:
        self.schema = schema
        self.positions = positions
        self.stored = stored
        self._parts = parts  # the shape of each column, and where the arrays are that it needs

    def __reduce__(self) -> Any:
        return Projection, (self.schema, self.positions, self.stored, self._parts)

    @property
    def is_stored(self) -> bool:
        """Whether the columns are read as they are stored."""
        return self._parts is None

    def join(self, batch: pa.RecordBatch, strict: bool = True) -> pa.RecordBatch:
        """Return the columns of `schema`, made from stored columns.

        If `strict`, refuse decimals with too many digits, and times outside the day.
        """
        if self._parts is None:
            return batch
        arrays = batch.columns
        columns = []
        for (shape, places), field in zip(self._parts, self.schema, strict=True):
            needed = [None if place is None else arrays[place] for place in places]
            try:
                column = shape.join(needed, batch.num_rows)
                if strict and has_range(field.type):
                    column.validate(full=True)
            except CorruptFileError as error:
                error.locate(column=field.name)
                raise
            except pa.ArrowInvalid as error:
                raise CorruptFileError(f"{error}", column=field.name) from error
            if not field.nullable and column.null_count:
                raise CorruptFileError(
                    f"there are {column.null_count} nulls, but the column is declared not null",
                    column=field.name,
                )
            columns.append(column)
        return pa.RecordBatch.from_arrays(columns, schema=self.schema)


class FileSchema(ColumnSet):
    """The columns of a file.

    Parameters
    ----------
    block : SchemaBlock
        The stored columns.
    attached : Attached, optional
        What the annex says about them. Without it, or if it restores no types, the columns are the
        stored ones.
    hidden : frozenset of str, optional
        Names of columns that are treated as if the file did not have them.
    """

    __slots__ = (
        "_arrow",
        "_attached",
        "_found",
        "_last",
        "_owners",
        "_selected",
        "_sizes",
        "block",
        "hidden",
    )

    def __init__(
        self,
        block: SchemaBlock,
        attached: Attached | None = None,
        hidden: frozenset[str] = frozenset(),
    ) -> None:
        self.block = block
        self.hidden = hidden
        restores = attached is not None and attached.restores and len(attached.given)
        self._attached = attached if restores else None
        self._found: dict[str, tuple[pa.Field, Shape]] = {}
        self._owners: dict[str, str] | None = None
        self._sizes: list[int] | None = None  # lengths of the names of columns that may be structs
        self._arrow: pa.Schema | None = None
        self._last: Projection | None = None
        self._selected: dict[tuple[str, ...], Projection] = {}  # those used last, by their names

    def __eq__(self, other: object) -> bool:
        return (
            isinstance(other, FileSchema)
            and self.block is other.block
            and self._attached is other._attached
            and self.hidden == other.hidden
        )

    def __hash__(self) -> int:
        return hash((id(self.block), id(self._attached), self.hidden))

    def __reduce__(self) -> Any:
        return FileSchema, (self.block, self._attached, self.hidden)

    def hiding(self, names: frozenset[str]) -> FileSchema:
        """Return the columns without those called `names`, and no others."""
        if names == self.hidden:
            return self
        return FileSchema(self.block, self._attached, names)

    # ---- columns by name

    def find(self, name: str) -> pa.Field | None:
        if name in self.hidden:
            return None
        if self._attached is None:
            position = self.block.find(name)
            return None if position < 0 else self.block.field(position)
        found = self._column(name)
        return None if found is None else found[0]

    def has(self, name: str) -> bool:
        if self._attached is None:
            return name not in self.hidden and self.block.find(name) >= 0
        return super().has(name)

    def path(self, name: str) -> Path | None:
        if self.find(name) is not None:
            return (name,)
        for parent in self._parents(name):
            field = self.find(parent)
            rest = None if field is None else inside(field.type, name[len(parent) + 1 :])
            if rest is not None:
                return (parent, *rest)
        return None

    def select(self, names: Sequence[str]) -> pa.Schema:
        if self._attached is not None:
            return super().select(names)
        key = tuple(names)
        found = self._selected.get(key)
        if found is None:
            positions = [self._position(name) for name in names]
            schema = pa.schema(self.block.fields(positions))
            found = Projection(schema, positions, schema)
            if len(self._selected) == KEPT_SELECTIONS:
                self._selected.clear()
            self._selected[key] = found
        self._last = found
        return found.schema

    def _position(self, name: str) -> int:
        position = -1 if name in self.hidden else self.block.find(name)
        if position < 0:
            raise ColumnNotFoundError.for_name(name, self.similar(name))
        return position

    def occurring(self, text: str) -> list[str]:
        names = [self.block.name(position) for position in self.block.occurring(text)]
        names = self._visible(names)
        if self._attached is None:
            return names
        nested = (name for name in self._attached.nested if name in text)
        found = dict.fromkeys(self._visible([*names, *nested]))
        return [name for name in found if self._column(name) is not None]

    def names(self) -> list[str]:
        owners = self._columns_of_structs()
        names = self.block.names()
        if owners:
            names = list(dict.fromkeys(owners.get(name, name) for name in names))
        return self._visible(names)

    def _visible(self, names: list[str]) -> list[str]:
        return [name for name in names if name not in self.hidden] if self.hidden else names

    def paths(self) -> list[str]:
        structs = set(self._columns_of_structs().values())
        if not structs:
            return self.names()
        names = []
        for name in self.names():
            if name in structs:
                names += [".".join(path) for path, _ in leaves(self.field(name))]
            else:
                names.append(name)
        return names

    def similar(self, name: str) -> list[str]:
        return self._visible(self.block.similar(name))

    def to_arrow(self) -> pa.Schema:
        if self._attached is None and not self.hidden:
            schema = self.block.to_arrow()
            self._last = Projection(schema, self.block.order, schema)
            return schema
        if self._arrow is None:
            self._arrow = pa.schema([self.field(name) for name in self.names()])
        return self._arrow

    # ---- what is stored

    def projection(self, schema: pa.Schema) -> Projection:
        """Return how to read columns, which may have only some of the fields of their structs."""
        last = self._last  # another thread may set another one
        if last is not None and last.schema is schema:
            return last
        if self._attached is None:
            positions = [self._position(name) for name in schema.names]
            return Projection(schema, positions, schema)
        places: dict[int, int] = {}
        parts: list[tuple[Shape, list[int | None]]] = []
        for field in schema:
            found = self._column(field.name)
            if found is None:
                raise ColumnNotFoundError.for_name(field.name, self.similar(field.name))
            shape = found[1] if found[0].type == field.type else shape_of(field)
            needed: list[int | None] = []
            for one in shape.fields:
                position = self.block.find(one.name)
                # Only columns that may be missing are: `_check` has found the others.
                is_missing = position < 0
                needed.append(None if is_missing else places.setdefault(position, len(places)))
            parts.append((shape, needed))
        positions = list(places)
        made = Projection(schema, positions, pa.schema(self.block.fields(positions)), parts)
        self._last = made
        return made

    def projection_of(self, wanted: Iterable[pa.Field]) -> Projection:
        """Return how to read those of the wanted columns, and fields of structs, that exist."""
        if self._attached is None:
            names = self._visible([field.name for field in wanted])
            found = map(self.block.find, names)
            positions = [position for position in found if position >= 0]
            schema = pa.schema(self.block.fields(positions))
            return Projection(schema, positions, schema)
        fields = []
        for field in wanted:
            own = self.find(field.name)
            if own is not None:
                fields.append(own.with_type(restricted(own.type, field.type)))
        return self.projection(pa.schema(fields))

    def contains(self, path: Path) -> bool:
        """Return whether there is a column, or a field inside structs, at a path."""
        return self._at(path) is not None

    def leaf(self, path: Path) -> tuple[int, Shape, pa.Field] | None:
        """Return position, shape and field of the stored column of a leaf that no list contains."""
        field = self._at(path)
        if field is None or pa.types.is_struct(field.type):
            return None
        name = ".".join(path)
        position = self.block.find(name)
        return None if position < 0 else (position, shape_of(field.with_name(name)), field)

    def _at(self, path: Path) -> pa.Field | None:
        field = self.find(path[0])
        for name in path[1:]:
            if field is None or not pa.types.is_struct(field.type):
                return None
            index = field.type.get_field_index(name)
            field = None if index < 0 else field.type.field(index)
        return field

    def restored(
        self, position: int, low: pa.Scalar | None, high: pa.Scalar | None
    ) -> tuple[pa.Scalar | None, pa.Scalar | None]:
        """Return two values of a stored column with the type that the user sees."""
        if self._attached is None or low is None or high is None:
            return low, high
        path = self.path(self.block.name(position))
        found = None if path is None else self.leaf(path)
        if found is None:
            return low, high
        _, shape, _ = found
        try:
            pair = shape.join([pa.array([low, high], low.type)], 2)
        except CorruptFileError:
            return None, None
        return pair[0], pair[1]

    def converted_positions(self) -> list[int]:
        """Return the stored columns that the user may see with other types."""
        if self._attached is None:
            return []
        found = (
            self.block.find(stored)
            for name in self._attached.given.names
            for stored in self.stored_names(name)
        )
        return [position for position in found if position >= 0]

    def is_converted(self, name: str) -> bool:
        """Return whether a column is stored with another type, or as several columns."""
        if self._attached is None:
            return False
        found = self._column(name)
        return found is not None and list(found[1].fields) != [found[0]]

    def stored_names(self, name: str) -> list[str]:
        """Return the names of the stored columns of a column."""
        if self._attached is None:
            return [name]
        found = self._column(name)
        return [] if found is None else [one.name for one in found[1].fields]

    def _column(self, name: str) -> tuple[pa.Field, Shape] | None:
        """Return a column and its shape; its stored columns exist and have the right types."""
        found = self._found.get(name)
        if found is None and (found := self._looked_up(name)) is not None:
            self._found[name] = found
        return found

    def _looked_up(self, name: str) -> tuple[pa.Field, Shape] | None:
        assert self._attached is not None
        position = self.block.find(name)
        listed = self._attached.listed(name)
        if listed is None:
            if position < 0 or self._is_owned(name):
                return None
            field = self.block.field(position)
            return field, shape_of(field)
        try:
            plain = plain_type(listed.type)
            field = pa.field(name, plain, listed.nullable)
            self._check_size(field)
            shape = shape_of(field)
        except UnsupportedError as error:
            raise CorruptFileError(f"{error}", part="annex", column=name) from error
        self._check(shape)
        return field, shape

    def _check_size(self, field: pa.Field) -> None:
        # A name in the annex may be long, and is part of the names of all fields inside.
        size = names_size(field)
        if size > _SMALL_NAMES and size > self.block.names_size:
            raise CorruptFileError(
                "its fields need more columns than the file has", part="annex", column=field.name
            )

    def _check(self, shape: Shape) -> None:
        seen: set[str] = set()
        for one in shape.fields:
            if one.name in seen:
                raise CorruptFileError(
                    "the annex has two types for it", part="annex", column=one.name
                )
            seen.add(one.name)
            position = self.block.find(one.name)
            if position < 0:
                if one.name in shape.optional:
                    continue
                raise _missing(one.name)
            stored = self.block.field(position)
            if stored.type != one.type or stored.nullable != one.nullable:
                raise CorruptFileError(
                    f"it is stored as {_shown(stored)}, but the type in the annex requires "
                    f"{_shown(one)}",
                    part="annex",
                    column=one.name,
                )

    def _columns_of_structs(self) -> dict[str, str]:
        """Return the stored columns that belong to structs, each with the column of the struct."""
        if self._attached is None:
            return {}
        if self._owners is None:
            owners: dict[str, str] = {}
            nested = set(self._attached.nested)
            for listed in self._attached.given.names:
                if listed not in nested and self.block.find(listed) < 0:
                    raise _missing(listed)
            for listed in self._attached.nested:
                found = self._column(listed)
                if found is None or not is_shredded(found[0].type):
                    continue
                for one in found[1].fields:
                    other = owners.setdefault(one.name, listed)
                    if other != listed or self._attached.listed(one.name) is not None:
                        raise CorruptFileError(
                            f"it belongs to {other!r}, but also to another column",
                            part="annex",
                            column=one.name,
                        )
            self._owners = owners
        return self._owners

    def _is_owned(self, name: str) -> bool:
        """Return whether the stored column called `name` belongs to a struct."""
        if self._owners is not None:
            return name in self._owners
        return any(
            (found := self._column(parent)) is not None
            and any(one.name == name for one in found[1].fields)
            for parent in self._parents(name)
        )

    def _parents(self, name: str) -> Iterator[str]:
        """Yield the listed columns whose fields may be stored as `name`."""
        # Not all beginnings of the name: a name may consist of a million dots.
        if self._sizes is None:
            nested = () if self._attached is None else self._attached.nested
            self._sizes = sorted(set(map(len, nested)))
        for size in self._sizes:
            if size >= len(name):
                return
            if name[size] == "." and self._is_listed(name[:size]):
                yield name[:size]

    def _is_listed(self, name: str) -> bool:
        return self._attached is not None and self._attached.listed(name) is not None


def _missing(name: str) -> CorruptFileError:
    return CorruptFileError(
        "the annex has a type for it, but it is not in the file", part="annex", column=name
    )


def _shown(field: pa.Field) -> str:
    return f"{field.type}{'' if field.nullable else ' not null'}"

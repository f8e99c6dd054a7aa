"""The user's schema: types and metadata that the schema block of a file cannot store.

They are stored as an Arrow IPC schema message with the metadata of the schema, and those fields that
have metadata or a type that differs from the stored columns. All other columns are as the schema
block says, so that opening a file does not depend on how many of these it has.

If most columns of a stored type have one other type, as all texts of Polars are string views, a second
message has this type instead of all these columns. It holds for every column of that stored type that
the first message does not list.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Iterable, Sequence
from functools import lru_cache
from typing import Final, NamedTuple, TypeAlias, TypeVar

import pyarrow as pa
from pyarrow import types as arrow_types

from ..errors import CorruptFileError, UnsupportedError
from ..memory import Memory
from .column_set import ColumnSet
from .fixed_sizes import without_sizes
from .paths import Path
from .plain_arrays import list_type
from .shred import is_shredded
from .types import is_list, is_simple, plain_type, stored_type
from .user_arrays import Dictionaries, to_user

Rows = TypeVar("Rows", pa.Table, pa.RecordBatch)
CommonTypes: TypeAlias = dict[pa.DataType, pa.DataType]

# Fewer columns are listed one by one.
_MIN_COMMON: Final = 16
_NOTHING: Final = pa.schema([])
_EXTENSION: Final = b"ARROW:extension:name"  # the metadata key of an extension type


class UserSchema(NamedTuple):
    """What the annex says about the schema.

    message   an Arrow IPC schema message with metadata and columns
    common    an Arrow IPC schema message with the types of columns that are not listed
    restores  whether there are types that differ from the stored ones
    """

    message: bytes | None
    common: bytes | None
    restores: bool


def encode(schema: pa.Schema, common: CommonTypes | None = None) -> bytes | None:
    """Encode what the schema block cannot store of `schema`; return None if there is nothing.

    Columns of the `common` types are not listed.
    """
    common = common or {}
    known = set(common.values())
    fields = [
        _as_message(field)
        for field in schema
        if (field.metadata or _is_extension(field.type) or field.type not in known)
        and (_is_listed(field) or field.type in common)
    ]
    if not fields and not schema.metadata:
        return None
    message: pa.Buffer = pa.schema(fields, schema.metadata).serialize()
    return message.to_pybytes()


def common_types(schema: pa.Schema) -> CommonTypes:
    """Return the types that most columns of a stored type have, by the stored type."""
    # Extension types in Python may lack a hash.
    counts = Counter(type for type in schema.types if not _is_extension(type))
    stored: dict[pa.DataType, Counter[pa.DataType]] = {}
    for type, count in counts.items():
        plain = plain_type(type)
        if not is_restored(plain):
            stored.setdefault(plain, Counter())[type] += count
    found = {}
    for plain, own in stored.items():
        ((type, count),) = own.most_common(1)
        if type != plain and count >= _MIN_COMMON and 2 * count > own.total():
            found[plain] = type
    return found


def encode_common(common: CommonTypes) -> bytes | None:
    """Encode common types; return None if there are none."""
    if not common:
        return None
    message: pa.Buffer = pa.schema(
        [_as_message(pa.field("", type)) for type in common.values()]
    ).serialize()
    return message.to_pybytes()


def _as_message(field: pa.Field) -> pa.Field:
    """Return a field without extension types in dictionaries.

    Arrow would read these back as extension types around a dictionary.
    """

    def without_extension(type: pa.DataType, path: Path) -> pa.DataType:
        value = type.value_type
        while isinstance(value, pa.BaseExtensionType):
            value = value.storage_type
        return pa.dictionary(
            type.index_type, map_dictionaries(value, without_extension, path), type.ordered
        )

    return field.with_type(map_dictionaries(field.type, without_extension, (field.name,)))


def _is_extension(type: pa.DataType) -> bool:
    return isinstance(type, pa.BaseExtensionType)


def restores_types(schema: pa.Schema) -> bool:
    """Return whether columns of `schema` are stored with other types, or as several columns.

    An extension type counts as its storage.
    """
    return any(is_restored(type) for type in schema.types)


def _is_listed(field: pa.Field) -> bool:
    if is_simple(field.type):
        return bool(field.metadata)
    return (
        bool(field.metadata)
        or isinstance(field.type, pa.BaseExtensionType)
        or is_restored(field.type)
        or any(map(_is_listed, _inside(field.type)))
    )


def is_restored(arrow: pa.DataType) -> bool:
    """Return whether values of the type are stored as values of another type."""
    if is_simple(arrow):
        return False
    if isinstance(arrow, pa.BaseExtensionType):
        return is_restored(arrow.storage_type)
    if arrow_types.is_map(arrow) and arrow_types.is_nested(plain_type(arrow.key_type)):
        return True  # the format has no such maps
    if arrow_types.is_list(arrow):
        return is_restored(arrow.value_type)
    if arrow_types.is_map(arrow) and not arrow.keys_sorted:
        key, item = arrow.key_type, arrow.item_type
        return is_shredded(plain_type(arrow)) or is_restored(key) or is_restored(item)
    plain = plain_type(arrow)
    return is_shredded(plain) or plain != arrow or stored_type(plain) != arrow


def _has_extension(arrow: pa.DataType) -> bool:
    return isinstance(arrow, pa.BaseExtensionType) or any(
        _has_extension(field.type) for field in _inside(arrow)
    )


def _inside(arrow: pa.DataType) -> list[pa.Field]:
    if arrow_types.is_map(arrow):
        return [arrow.key_field, arrow.item_field]
    if arrow_types.is_struct(arrow):
        return list(arrow)
    return [arrow.value_field] if is_list(arrow) else []


def decode(message: bytes | None, common: bytes | None = None, restores: bool = False) -> Attached:
    """Decode what `UserSchema` has; extension types that are not registered are ignored.

    Unless it `restores` types, those that differ from the stored ones are ignored, too.
    """
    found = _decoded(message, common, restores)
    if message is not None and _EXTENSION in message:  # a type may be registered by now
        again = _decoded.__wrapped__(message, common, restores)
        if not again.given.equals(found.given, check_metadata=True):
            _decoded.cache_clear()
            found = _decoded(message, common, restores)
    return found


# The files of a dataset usually have the same message.
@lru_cache(maxsize=8)
def _decoded(message: bytes | None, common: bytes | None, restores: bool) -> Attached:
    try:
        given = _NOTHING if message is None else pa.ipc.read_schema(pa.py_buffer(message))
        types = _NOTHING
        if common is not None and restores:
            types = pa.ipc.read_schema(pa.py_buffer(common))
        _check_names([*given, *types])
        by_plain = {plain_type(field.type): field.type for field in types}
    except Exception as error:  # extension types in Python raise any
        raise CorruptFileError(f"the metadata in the annex is damaged: {error}") from error
    if len(set(given.names)) < len(given):
        raise CorruptFileError("the annex lists a column twice")
    if len(by_plain) < len(types) or any(map(is_restored, by_plain)):
        raise CorruptFileError("the annex has several types for all columns of one type")
    return Attached(given, restores, by_plain)


def _check_names(fields: Iterable[pa.Field]) -> None:
    """Raise UnicodeDecodeError if a name is not UTF-8: Arrow notices it only when asked for it."""
    for field in fields:
        str(field.name)
        if field.type.num_fields:
            _check_names(field.type.field(i) for i in range(field.type.num_fields))


class Attached:
    """Types and metadata of the user, to be restored on what is read from a file."""

    __slots__ = ("_nested", "_plain", "common", "dictionaries", "given", "restores")

    def __init__(
        self,
        given: pa.Schema,
        restores: bool = False,
        common: CommonTypes | None = None,
        dictionaries: Dictionaries | None = None,
        plain: Collection[str] = (),
    ) -> None:
        self.given = given  # only the fields that have metadata or another type
        self.restores = restores
        self.common = common or {}  # types of other columns, by their plain types
        self.dictionaries = dictionaries
        self._plain = plain  # columns that keep their plain types
        self._nested: list[str] | None = None

    @property
    def nested(self) -> list[str]:
        """The names of the listed columns that may contain structs."""
        if self._nested is None:
            self._nested = [
                field.name
                for field in self.given
                if arrow_types.is_nested(field.type)
                or arrow_types.is_dictionary(field.type)
                or isinstance(field.type, pa.BaseExtensionType)
            ]
        return self._nested

    def without_sizes(self) -> Attached:
        """Return types in which lists of a fixed size are lists of any size."""
        fields = [field.with_type(without_sizes(field.type)) for field in self.given]
        common = {plain: without_sizes(type) for plain, type in self.common.items()}
        given = pa.schema(fields, self.given.metadata)
        return Attached(given, self.restores, common, self.dictionaries, self._plain)

    def with_dictionaries(self, dictionaries: Dictionaries | None) -> Attached:
        return Attached(self.given, self.restores, self.common, dictionaries, self._plain)

    def listed(self, name: str) -> pa.Field | None:
        """Return the field of a column as the user had it, if it is listed."""
        index = self.given.get_field_index(name)
        return None if index < 0 else self.given.field(index)

    def field(self, field: pa.Field) -> pa.Field:
        """Return a column of a plain type as the user passed it to the writer."""
        given = self.listed(field.name)
        if given is None:
            if not self.common or field.name in self._plain or field.type not in self.common:
                return field
            type: pa.DataType | None = self.common[field.type]
        elif self.restores or _has_extension(given.type):
            type = user_type(given.type, field.type)
        else:
            type = None
        metadata = None if given is None else given.metadata
        if type is None:
            return pa.field(field.name, field.type, field.nullable, metadata)
        if arrow_types.is_null(type) and not field.nullable:
            raise CorruptFileError(
                "it has type null, but is declared not null", part="annex", column=field.name
            )
        if self.dictionaries is not None:
            type = map_dictionaries(type, self.dictionaries.fitted, (field.name,))
        return pa.field(field.name, type, field.nullable, metadata)

    def schema(self, schema: pa.Schema) -> pa.Schema:
        """Return `schema` as the user passed it to the writer."""
        if self._is_empty:
            return schema.with_metadata(self.given.metadata)
        return pa.schema(map(self.field, schema), self.given.metadata)

    @property
    def _is_empty(self) -> bool:
        return not self.common and not len(self.given)

    def put_on(self, rows: Rows, memory: Memory | None = None) -> Rows:
        """Return rows of the file with the types and metadata that the user passed.

        Fixed-size lists that are null take memory that the rows did not have.
        """
        if not rows.num_columns and rows.num_rows:
            return rows  # Arrow would lose the number of rows
        if self._is_empty:
            return rows.replace_schema_metadata(self.given.metadata)
        memory = Memory() if memory is None else memory
        schema = self.schema(rows.schema)
        columns = [
            column if column.type == field.type else self._converted(column, field, memory)
            for column, field in zip(rows.columns, schema, strict=True)
        ]
        made: Rows = type(rows).from_arrays(columns, schema=schema)
        return made

    def _converted(
        self, column: pa.Array | pa.ChunkedArray, field: pa.Field, memory: Memory
    ) -> pa.Array | pa.ChunkedArray:
        def convert(array: pa.Array) -> pa.Array:
            return to_user(array, field.type, (field.name,), self.dictionaries, memory)

        try:
            if isinstance(column, pa.ChunkedArray):
                # Without rows, there is nevertheless a dictionary.
                chunks = column.chunks or [pa.nulls(0, column.type)]
                return pa.chunked_array(map(convert, chunks), field.type)
            return convert(column)
        except (pa.ArrowInvalid, pa.ArrowNotImplementedError) as error:
            raise CorruptFileError(
                f"the values do not fit {field.type}: {error}", column=field.name
            ) from error


_NONE: Final = Attached(_NOTHING)


def user_type(user: pa.DataType, plain: pa.DataType) -> pa.DataType | None:
    """Return the part of the user's type whose values have the type `plain`.

    `plain` may lack fields of structs. Return None if it is not a part of the user's type.
    """
    try:
        if plain_type(user) == plain:
            return user
    except UnsupportedError:
        return None
    if isinstance(user, pa.BaseExtensionType):
        return user_type(user.storage_type, plain)
    if arrow_types.is_dictionary(user) or arrow_types.is_run_end_encoded(user):
        return user_type(user.value_type, plain)
    if arrow_types.is_struct(user) and arrow_types.is_struct(plain):
        fields = []
        for field in plain:
            index = user.get_field_index(field.name)
            part = None if index < 0 else _part(user.field(index), field)
            if part is None:
                return None
            fields.append(part)
        return pa.struct(fields)
    if arrow_types.is_map(user) and arrow_types.is_map(plain):
        key, item = _part(user.key_field, plain.key_field), _part(user.item_field, plain.item_field)
        return None if key is None or item is None else pa.map_(key, item, user.keys_sorted)
    if is_list(user) and arrow_types.is_list(plain):
        element = _part(user.value_field, plain.value_field)
        return None if element is None else list_type(user, element)
    return None


def _part(user: pa.Field, plain: pa.Field) -> pa.Field | None:
    type = user_type(user.type, plain.type)
    return None if type is None else user.with_type(type)


def map_dictionaries(
    type: pa.DataType, change: Callable[[pa.DataType, Path], pa.DataType], path: Path
) -> pa.DataType:
    """Return a type with other types in place of the dictionaries inside it.

    `change` gets each dictionary type and its path; `path` is that of the type.
    """
    if is_simple(type):
        return type

    def inside(field: pa.Field) -> pa.Field:
        return field.with_type(map_dictionaries(field.type, change, (*path, field.name)))

    if arrow_types.is_dictionary(type):
        return change(type, path)
    if arrow_types.is_struct(type):
        return pa.struct(map(inside, type))
    if arrow_types.is_map(type):
        return pa.map_(inside(type.key_field), inside(type.item_field), type.keys_sorted)
    return list_type(type, inside(type.value_field)) if is_list(type) else type


def agreed(
    files: Iterable[tuple[UserSchema | None, ColumnSet]], plain: Iterable[str] = ()
) -> Attached | None:
    """Return what all files of a dataset agree on, with the schema metadata of the first file.

    Each file comes with its columns: a file without a column agrees with all others about it. The
    columns `plain`, which are in no file, keep their types.
    """
    every = [
        (_NONE if message is None else decode(*message), columns)
        for message, columns in dict.fromkeys(files)
    ]
    first = every[0][0]
    if all(attached is _NONE for attached, _ in every):
        return None
    is_common = all(one.common == first.common for one, _ in every)
    names = dict.fromkeys(name for attached, _ in every for name in attached.given.names)
    if not is_common:
        names |= dict.fromkeys(
            name for attached, columns in every if attached.common for name in columns.names()
        )
    fields = []
    differing = []
    for name in names:
        own = [
            attached.field(field)
            for attached, columns in every
            if (field := columns.find(name)) is not None
        ]
        field = _common(own) if own else None
        if field is None:
            differing.append(name)
        else:
            fields.append(field)
    return Attached(
        pa.schema(fields, first.given.metadata),
        any(attached.restores for attached, _ in every),
        first.common if is_common else {},
        plain={*plain, *differing} if first.common and is_common else (),
    )


def _common(fields: Sequence[pa.Field]) -> pa.Field | None:
    """Return a field with the type and the metadata of all fields, or None if they differ.

    Dictionaries with the same type of values may have different indices, and different orders.
    """
    found, *others = fields
    for field in others:
        type = _common_type(found.type, field.type)
        if type is None or found.metadata != field.metadata:
            return None
        found = found.with_type(type)
    return found


def _common_type(one: pa.DataType, other: pa.DataType) -> pa.DataType | None:
    if one.equals(other, check_metadata=True):
        return one
    if not (arrow_types.is_dictionary(one) and arrow_types.is_dictionary(other)):
        return None
    value = one.value_type
    if value != other.value_type:
        value = plain_type(value)
        if value != plain_type(other.value_type):
            return None
    index = one.index_type
    if index != other.index_type:
        index = max(pa.int32(), index, other.index_type, key=lambda type: type.bit_width)
    return pa.dictionary(index, value, one.ordered and other.ordered)

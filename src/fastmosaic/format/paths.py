"""Paths to fields inside structs, and types that contain only some of the fields.

A path is a column and the names of fields inside it, written with dots: `info.name`. Lists have no
name of their own in a path, and maps have `key` and `value`: if `items` is a list of structs,
`items.x` is a field of its elements. Names may contain dots themselves.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator

import pyarrow as pa
from pyarrow import types

Path = tuple[str, ...]


def split_path(name: str, field_of: Callable[[str], pa.Field | None]) -> Path | None:
    """Return the path that `name` stands for among the columns that `field_of` finds, or None."""
    field = field_of(name)
    if field is not None:
        return (name,)
    end = name.find(".")
    while end >= 0:
        field = field_of(name[:end])
        if field is not None and (rest := inside(field.type, name[end + 1 :])) is not None:
            return (name[:end], *rest)
        end = name.find(".", end + 1)
    return None


def inside(arrow: pa.DataType, name: str) -> Path | None:
    """Return the path inside a type that `name` stands for, or None."""
    for child in children(arrow):
        if child.name == name:
            return (name,)
        if name.startswith(f"{child.name}."):
            rest = inside(child.type, name[len(child.name) + 1 :])
            if rest is not None:
                return (child.name, *rest)
    return None


def children(arrow: pa.DataType) -> list[pa.Field]:
    """Return the fields of a struct, of the structs in a list, or key and value of a map."""
    if types.is_struct(arrow):
        return list(arrow)
    if types.is_map(arrow):
        pair = [arrow.key_field.with_name("key"), arrow.item_field.with_name("value")]
        return pair if any(children(one.type) for one in pair) else []
    return children(arrow.value_type) if types.is_list(arrow) else []


def leaves(field: pa.Field, path: Path = ()) -> Iterator[tuple[Path, pa.Field]]:
    """Yield the paths to all fields inside a column that contain no further fields."""
    path = (*path, field.name)
    inside = children(field.type)
    if not inside:
        yield path, field
    for child in inside:
        yield from leaves(child, path)


def flat_leaves(field: pa.Field, path: Path = ()) -> Iterator[tuple[Path, pa.Field]]:
    """Yield the paths to the leaves that have one value in each row: those that no list contains."""
    path = (*path, field.name)
    if not types.is_struct(field.type):
        yield path, field
        return
    for child in field.type:
        yield from flat_leaves(child, path)


def at_path(field: pa.Field, path: Path) -> pa.Field:
    """Return the field at a path that begins with the column `field`."""
    for name in path[1:]:
        field = next(child for child in children(field.type) if child.name == name)
    return field


def pruned(arrow: pa.DataType, paths: Iterable[Path]) -> pa.DataType:
    """Return a type with only the fields at `paths`, which are relative to the type."""
    wanted: dict[str, list[Path]] = {}
    for path in paths:
        if not path:
            return arrow
        wanted.setdefault(path[0], []).append(path[1:])
    return _pruned(arrow, wanted)


def _pruned(arrow: pa.DataType, wanted: dict[str, list[Path]]) -> pa.DataType:
    if types.is_struct(arrow):
        return pa.struct(
            [
                field.with_type(pruned(field.type, wanted[field.name]))
                for field in arrow
                if field.name in wanted
            ]
        )
    if types.is_map(arrow):  # a map without keys is none
        item = arrow.item_field
        if "value" in wanted:
            item = item.with_type(pruned(item.type, wanted["value"]))
        return pa.map_(arrow.key_field, item)
    field = arrow.value_field
    return pa.list_(field.with_type(_with_lengths(_pruned(field.type, wanted), field.type)))


def _with_lengths(part: pa.DataType, whole: pa.DataType) -> pa.DataType:
    """Return the elements of a list with one field at least, which knows the lengths of lists."""
    if types.is_struct(part) and not _has_leaf(part) and len(whole):
        return pa.struct([whole.field(0)])
    return part


def _has_leaf(arrow: pa.DataType) -> bool:
    if types.is_struct(arrow):
        return any(_has_leaf(field.type) for field in arrow)
    return True


def restricted(arrow: pa.DataType, other: pa.DataType) -> pa.DataType:
    """Return `arrow` with only those fields of its structs that `other` has as well."""
    if types.is_struct(arrow) and types.is_struct(other):
        return pa.struct(
            [
                field.with_type(restricted(field.type, other.field(index).type))
                for field in arrow
                if (index := other.get_field_index(field.name)) >= 0
            ]
        )
    if types.is_map(arrow) and types.is_map(other):
        item = arrow.item_field
        return pa.map_(arrow.key_field, item.with_type(restricted(item.type, other.item_type)))
    if types.is_list(arrow) and types.is_list(other):
        field = arrow.value_field
        inner = _with_lengths(restricted(field.type, other.value_type), field.type)
        return pa.list_(field.with_type(inner))
    return arrow


def united(one: pa.DataType, other: pa.DataType) -> pa.DataType:
    """Return a type with the fields of both, which are parts of one type."""
    if one == other:
        return one
    if types.is_struct(one):
        fields = {field.name: field for field in one}
        for field in other:
            known = fields.get(field.name)
            type = field.type if known is None else united(known.type, field.type)
            fields[field.name] = field.with_type(type)
        return pa.struct(fields.values())
    if types.is_map(one):
        item = one.item_field
        return pa.map_(one.key_field, item.with_type(united(item.type, other.item_type)))
    field = one.value_field
    return pa.list_(field.with_type(united(field.type, other.value_type)))


def selected(names: Iterable[str], find: Callable[[str], tuple[Path, pa.Field]]) -> list[pa.Field]:
    """Return the columns that `names` select, with only the fields that were selected.

    `find` returns the path that a name stands for, and the whole column.
    """
    fields: dict[str, pa.Field] = {}
    paths: dict[str, list[Path]] = {}
    for name in names:
        path, field = find(name)
        fields.setdefault(field.name, field)
        paths.setdefault(field.name, []).append(path[1:])
    return [
        field if () in paths[name] else field.with_type(pruned(field.type, paths[name]))
        for name, field in fields.items()
    ]

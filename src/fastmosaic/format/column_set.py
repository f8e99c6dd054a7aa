"""ColumnSet: the columns of a file or a dataset by name, and fields inside structs by path."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence

import pyarrow as pa

from ..errors import ColumnNotFoundError
from .paths import Path, leaves, selected, split_path


class ColumnSet(ABC):
    """Columns, with plain types. A column is decoded when it is asked for."""

    __slots__ = ()

    @abstractmethod
    def find(self, name: str) -> pa.Field | None:
        """Return the column called `name`, or None."""

    @abstractmethod
    def occurring(self, text: str) -> list[str]:
        """Return the names of columns that occur anywhere in `text`."""

    @abstractmethod
    def names(self) -> list[str]:
        """Return the names of all columns, in order."""

    @abstractmethod
    def similar(self, name: str) -> list[str]:
        """Return the names of columns that are most similar to `name`, for suggestions."""

    @abstractmethod
    def to_arrow(self) -> pa.Schema:
        """Return all columns."""

    def field(self, name: str) -> pa.Field:
        """Return the column called `name`, or raise `ColumnNotFoundError`."""
        found = self.find(name)
        if found is None:
            raise ColumnNotFoundError.for_name(name, self.similar(name))
        return found

    def has(self, name: str) -> bool:
        """Return whether there is a column called `name`, or a field of a struct at this path."""
        return self.path(name) is not None

    def path(self, name: str) -> Path | None:
        """Return the path that `name` stands for, or None."""
        return split_path(name, self.find)

    def select(self, names: Sequence[str]) -> pa.Schema:
        """Return the columns or fields called `names`, in this order.

        A field of a struct is returned as the struct with only this field. Raise
        `ColumnNotFoundError` if there is nothing of such a name.
        """
        return pa.schema(selected(names, self._find_path))

    def _find_path(self, name: str) -> tuple[Path, pa.Field]:
        path = self.path(name)
        if path is None:
            raise ColumnNotFoundError.for_name(name, self.similar(name))
        return path, self.field(path[0])

    def paths(self) -> list[str]:
        """Return the names of all columns, with the paths of all fields in place of structs."""
        fields = map(self.field, self.names())
        return [".".join(path) for field in fields for path, _ in leaves(field)]

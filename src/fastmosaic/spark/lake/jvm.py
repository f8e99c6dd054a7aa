"""Objects of Spark's JVM that a catalog needs: names, exceptions, definitions of tables."""

from __future__ import annotations

import json
import pickle
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

import pyarrow as pa

from ...errors import UnsupportedError
from ..jvm import EXPRESSIONS, PYTHON, SQL, Jvm
from ..schemas import from_spark
from .lake import LakeError, Namespace

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

CATALOG: Final = f"{SQL}.connector.catalog"
WRITE: Final = f"{SQL}.connector.write"
ANALYSIS: Final = f"{SQL}.catalyst.analysis"

# Metadata of columns whose types Spark keeps there: strings of a length, or with a collation.
_STRING_TYPES: Final = ("__CHAR_VARCHAR_TYPE_STRING", "__COLLATIONS")
# Properties that Spark sets itself.
_OWN_PROPERTIES: Final = frozenset({"provider", "owner", "is_managed_location", "table_type"})


@dataclass(frozen=True)
class TableDefinition:
    """The columns of a table to create, its partition columns, and the properties given in SQL."""

    schema: pa.Schema
    partitioning: tuple[str, ...]
    properties: Mapping[str, str]

    def check(self, default_provider: str) -> None:
        """Raise UnsupportedError if the table cannot be created as it is defined."""
        provider = self.properties.get("provider", "mosaic")
        # DataFrameWriter passes the default source if the user names none.
        if provider.lower() not in ("mosaic", default_provider.lower()):
            raise UnsupportedError(
                f"tables of this catalog are Mosaic tables, not {provider!r}: leave USING out"
            )
        if "location" in self.properties:
            raise UnsupportedError(
                "tables of this catalog are below its directory: leave LOCATION out"
            )
        others = [one for one in self.properties if one not in _OWN_PROPERTIES]
        given = [one for one in others if not one.startswith("option.")]
        if given:
            raise UnsupportedError(f"table properties are not supported: {', '.join(given)}")


class CatalogJvm(Jvm):
    """The JVM of a session, for a catalog."""

    def __init__(self, spark: SparkSession) -> None:
        super().__init__(spark)
        self._conf = self.session.sessionState().conf()

    def install(self, name: str, plugin: Any) -> None:
        """Put a catalog into the session: Spark itself only makes catalogs of Java classes."""
        manager = self.session.sessionState().catalogManager()
        found = manager.getClass().getDeclaredField("catalogs")
        found.setAccessible(True)
        found.get(manager).put(name, plugin)

    @property
    def default_provider(self) -> str:
        return str(self._conf.defaultDataSourceName())

    # ---- names

    def strings(self, items: Sequence[str]) -> Any:
        return self.array("java.lang.String", items)

    def identifier(self, namespace: Namespace, name: str) -> Any:
        return self._class(f"{CATALOG}.Identifier").of(self.strings(namespace), name)

    def identifiers(self, namespace: Namespace, names: Sequence[str]) -> Any:
        return self.array(
            f"{CATALOG}.Identifier", [self.identifier(namespace, name) for name in names]
        )

    def summaries(self, namespace: Namespace, names: Sequence[str]) -> Any:
        summary = self._class(f"{CATALOG}.TableSummary")
        return self.array(
            f"{CATALOG}.TableSummary",
            [summary.of(self.identifier(namespace, name), "MANAGED") for name in names],
        )

    def namespaces(self, items: Sequence[Namespace]) -> Any:
        depth = len(items[0]) if items else 0
        array = self.gateway.gateway.new_array(self._class("java.lang.String"), len(items), depth)
        for index, item in enumerate(items):
            for place, part in enumerate(item):
                array[index][place] = part
        return array

    def map(self, items: Mapping[str, str]) -> Any:
        made = self._class("java.util.HashMap")()
        for key, value in items.items():
            made.put(key, value)
        return made

    def no_capabilities(self) -> Any:
        return self._class("java.util.Collections").emptySet()

    def table_capabilities(self) -> Any:
        capability = self._class(f"{CATALOG}.TableCapability")
        made = self._class("java.util.HashSet")()
        for name in (
            "BATCH_READ",
            "BATCH_WRITE",
            "TRUNCATE",
            "OVERWRITE_BY_FILTER",
            "OVERWRITE_DYNAMIC",
        ):
            made.add(capability.valueOf(name))
        return made

    def transforms(self, columns: Sequence[str]) -> Any:
        expressions = self._class(f"{EXPRESSIONS}.Expressions")
        return self.array(
            f"{EXPRESSIONS}.Transform",
            [expressions.identity(f"`{name.replace('`', '``')}`") for name in columns],
        )

    # ---- what Spark passes

    def definition(self, given: Sequence[Any]) -> TableDefinition:
        """Convert the arguments of `createTable` after the identifier.

        Since Spark 4.1 this is a TableInfo; before, columns, partition transforms and properties.
        """
        if len(given) == 1:
            (info,) = given
            struct, transforms, properties = info.schema(), info.partitions(), info.properties()
        else:
            columns, transforms, properties = given
            struct = self._class(f"{CATALOG}.CatalogV2Util").v2ColumnsToStructType(columns)
        return TableDefinition(
            self.arrow(struct),
            tuple(_partition_column(one) for one in transforms),
            {str(key): str(properties[key]) for key in properties},
        )

    def time_travel(self, given: Sequence[Any]) -> str | int | None:
        """Convert the arguments of `loadTable` after the identifier.

        Returns a version as text, a time in microseconds since 1970, or None. Spark passes one of
        them, or which privileges it needs; since 4.3 both in a context, and options.
        """
        if not given or isinstance(given[0], str | int):
            return given[0] if given else None
        if len(given) == 1 or not given[0].timeTravel().isPresent():
            return None
        asked = given[0].timeTravel().get()
        is_version = asked.getClass().getSimpleName() == "AsOfVersion"
        found: str | int = asked.version() if is_version else asked.micros()
        return found

    def arrow(self, struct: Any) -> pa.Schema:
        """Convert a StructType to the Arrow schema of a table."""
        from pyspark.sql.types import StructType

        document = json.loads(struct.json())
        for one in document["fields"]:
            for key in _STRING_TYPES:
                if key in one.get("metadata", {}):
                    raise UnsupportedError(
                        "strings of limited length and collations are not supported; use STRING",
                        column=one["name"],
                    )
            if "comment" in one.get("metadata", {}):
                raise UnsupportedError("comments on columns are not supported", column=one["name"])
        return from_spark(StructType.fromJson(document))

    def field(self, name: str, data_type: Any, nullable: bool) -> pa.Schema:
        """Return the schema of one column."""
        struct = self._class(f"{SQL}.types.StructType")()
        return self.arrow(struct.add(name, data_type, nullable))

    def writer_factory(self, function: Callable[..., Any], struct: Any) -> Any:
        """Return what creates writers in tasks: `function` gets batches and returns a message."""
        from pyspark.sql.types import BinaryType, StructType

        returned = StructType().add("message", BinaryType())
        return self._class(f"{PYTHON}.PythonBatchWriterFactory")(
            self._source,
            bytearray(pickle.dumps((function, returned))),
            struct,
            *self.version.factory_arguments(self.none),
        )

    # ---- exceptions

    def java_error(self, error: Exception) -> Any:
        return (
            self._lake_error(error) if isinstance(error, LakeError) else super().java_error(error)
        )

    def _lake_error(self, error: LakeError) -> Any:
        if error.reason in ("no table", "table exists"):
            name = "NoSuchTable" if error.reason == "no table" else "TableAlreadyExists"
            identifier = self.identifier(error.namespace, error.name or "")
            return self._class(f"{ANALYSIS}.{name}Exception")(identifier)
        name = {
            "no namespace": "NoSuchNamespace",
            "namespace exists": "NamespaceAlreadyExists",
            "not empty": "NonEmptyNamespace",
        }[error.reason]
        return self._class(f"{ANALYSIS}.{name}Exception")(self.strings(error.namespace))


def _partition_column(transform: Any) -> str:
    """Return the column that a partition transform stands for; only columns themselves can be."""
    references = transform.references()
    if transform.name() != "identity" or len(references) != 1:
        raise UnsupportedError(
            f"a table can be partitioned by columns, not by {transform.toString()}"
        )
    names = list(references[0].fieldNames())
    if len(names) != 1:
        raise UnsupportedError(f"a table cannot be partitioned by the field {'.'.join(names)}")
    return str(names[0])

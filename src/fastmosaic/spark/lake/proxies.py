"""CatalogProxy: a lake as a catalog of Spark. It only translates: `lake` knows what there is."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar, Final

from ...errors import UnsupportedError
from ...table.changes import State
from ...table.create import check_columns
from ...table.table import MosaicTable
from ..jvm import Guarded
from .jvm import CATALOG, CatalogJvm, TableDefinition
from .lake import Lake, LakeError, Namespace
from .tables import LakeTable, StagedLakeTable
from .writes import LakeTableProxy, StagedTableProxy

__all__ = ["CatalogProxy"]

_NOT_CHANGED: Final = {
    "RenameColumn": "a column cannot be renamed: add another one with its values, then drop it",
    "UpdateColumnType": "the type of a column cannot be changed: add another column",
    "UpdateColumnNullability": "whether a column may be null cannot be changed",
    "UpdateColumnPosition": "the order of columns cannot be changed",
    "UpdateColumnComment": "comments on columns are not supported",
    "UpdateColumnDefaultValue": "default values are not supported",
    "SetProperty": "table properties are not supported",
    "RemoveProperty": "table properties are not supported",
}


class CatalogProxy(Guarded):
    jvm: CatalogJvm

    class Java:
        implements: ClassVar = [
            f"{CATALOG}.StagingTableCatalog",
            f"{CATALOG}.SupportsNamespaces",
        ]

    def __init__(self, jvm: CatalogJvm, name: str, lake: Lake, options: Mapping[str, Any]) -> None:
        self.jvm = jvm
        self._name = name
        self._lake = lake
        self._options = options

    def __str__(self) -> str:
        return f"fastmosaic catalog {self._name} of {self._lake.name}"

    # ---- the catalog itself

    def initialize(self, name: str, options: Any) -> None:
        pass

    def name(self) -> str:
        return self._name

    def defaultNamespace(self) -> Any:
        return self.jvm.strings(())

    def capabilities(self) -> Any:
        return self.jvm.no_capabilities()

    def tableStateOptionKeys(self) -> Any:
        return self.jvm.no_capabilities()

    def changelogStateOptionKeys(self) -> Any:
        return self.jvm.no_capabilities()

    def useNullableQuerySchema(self) -> bool:
        return True

    def supportedCustomMetrics(self) -> Any:
        return self.jvm.no_custom_metrics()

    def toString(self) -> str:
        return str(self)

    def hashCode(self) -> int:
        return hash(self._name) & 0x7FFFFFFF

    def equals(self, other: Any) -> bool:
        return other is self

    # ---- tables

    def listTables(self, namespace: Any) -> Any:
        where = tuple(namespace)
        return self.jvm.identifiers(where, self._lake.tables(where))

    def listTableSummaries(self, namespace: Any) -> Any:
        where = tuple(namespace)
        return self.jvm.summaries(where, self._lake.tables(where))

    def loadTable(self, identifier: Any, *given: Any) -> LakeTableProxy:
        """Load a table: the newest version, that of a number or a time, or one to change."""
        namespace, name = _place(identifier)
        asked = self.jvm.time_travel(given)
        travel = {"version": _number(asked)} if isinstance(asked, str) else {"micros": asked}
        table = LakeTable.open(self._lake, self._label(namespace, name), namespace, name, **travel)
        return LakeTableProxy(self.jvm, table, self._options)

    def invalidateTable(self, identifier: Any) -> None:
        pass

    def tableExists(self, identifier: Any) -> bool:
        return self._lake.kind(*_place(identifier)) is not None

    def createTable(self, identifier: Any, *given: Any) -> LakeTableProxy:
        namespace, name = _place(identifier)
        definition = self._definition(given)
        self._lake.check_new(namespace, name)
        store = self._lake.store(namespace, name)
        try:
            MosaicTable.create(
                store.path,
                definition.schema,
                partitioning=definition.partitioning,
                filesystem=store.filesystem,
                single_writer=store.single_writer,
            )
        except FileExistsError:
            raise LakeError("table exists", namespace, name) from None
        return self.loadTable(identifier)

    def createTableLike(self, identifier: Any, info: Any, source: Any) -> LakeTableProxy:
        return self.createTable(identifier, info)

    def alterTable(self, identifier: Any, changes: Any) -> LakeTableProxy:
        namespace, name = _place(identifier)
        table = LakeTable.open(self._lake, self._label(namespace, name), namespace, name)
        for change in changes:
            try:
                self._alter(table, change)
            except ValueError as error:  # Spark would call it unsupported, in more words
                raise UnsupportedError(str(error)) from error
        return self.loadTable(identifier)

    def _alter(self, table: LakeTable, change: Any) -> None:
        kind = str(change.getClass().getSimpleName())
        if kind not in ("AddColumn", "DeleteColumn"):
            raise UnsupportedError(_NOT_CHANGED.get(kind, f"{kind} is not supported"))
        names = list(change.fieldNames())
        if len(names) > 1:
            raise UnsupportedError(
                "fields of a struct cannot be added or dropped", column=".".join(names)
            )
        if kind == "DeleteColumn":
            table.change().drop_columns(names)
            return
        if change.position() is not None:
            raise UnsupportedError("new columns come last: leave FIRST and AFTER out")
        if change.comment() is not None:
            raise UnsupportedError("comments on columns are not supported", column=names[0])
        field = self.jvm.field(names[0], change.dataType(), change.isNullable())
        table.change().add_columns(field)

    def dropTable(self, identifier: Any) -> bool:
        return self._lake.drop(*_place(identifier))

    def purgeTable(self, identifier: Any) -> bool:
        return self._lake.drop(*_place(identifier))

    def renameTable(self, source: Any, target: Any) -> None:
        namespace, name = _place(target)
        # Spark does not look for the name of a catalog here.
        if namespace[:1] == (self._name,) and not self._lake.is_namespace(namespace):
            namespace = namespace[1:]
        # Spark's exception for it is not declared for this method: it would not get through.
        if not self._lake.is_namespace(namespace):
            raise ValueError(f"there is no namespace {'.'.join(namespace)} in {self._name}")
        self._lake.rename(_place(source), (namespace, name))

    # ---- tables that are created with their rows

    def stageCreate(self, identifier: Any, *given: Any) -> StagedTableProxy:
        namespace, name = _place(identifier)
        definition = self._definition(given)
        self._lake.check_new(namespace, name)
        return self._staged(namespace, name, definition, None)

    def stageReplace(self, identifier: Any, *given: Any) -> StagedTableProxy:
        namespace, name = _place(identifier)
        definition = self._definition(given)
        label = self._label(namespace, name)
        table = LakeTable.open(self._lake, label, namespace, name)
        table.check_changeable()
        return self._staged(namespace, name, definition, table.state)

    def stageCreateOrReplace(self, identifier: Any, *given: Any) -> StagedTableProxy:
        exists = self._lake.kind(*_place(identifier)) is not None
        return (self.stageReplace if exists else self.stageCreate)(identifier, *given)

    def _staged(
        self, namespace: Namespace, name: str, definition: TableDefinition, replaced: State | None
    ) -> StagedTableProxy:
        table = StagedLakeTable(
            self._lake,
            self._label(namespace, name),
            self._lake.store(namespace, name),
            definition.schema,
            definition.partitioning,
            replaced,
            self._options,
        )
        return StagedTableProxy(self.jvm, table)

    def _definition(self, given: Any) -> TableDefinition:
        definition = self.jvm.definition(given)
        definition.check(self.jvm.default_provider)
        check_columns(definition.schema, definition.partitioning)
        return definition

    def _label(self, namespace: Namespace, name: str) -> str:
        return ".".join(_quoted(part) for part in (self._name, *namespace, name))

    # ---- namespaces

    def listNamespaces(self, *given: Any) -> Any:
        parent = tuple(given[0]) if given else ()
        return self.jvm.namespaces(self._lake.namespaces(parent))

    def namespaceExists(self, namespace: Any) -> bool:
        return self._lake.is_namespace(tuple(namespace))

    def loadNamespaceMetadata(self, namespace: Any) -> Any:
        return self.jvm.map(self._lake.properties(tuple(namespace)))

    def createNamespace(self, namespace: Any, properties: Any) -> None:
        given = {str(key): str(properties[key]) for key in properties}
        if "location" in given:
            raise UnsupportedError("namespaces are below the directory of the catalog")
        self._lake.create_namespace(tuple(namespace), given)

    def alterNamespace(self, namespace: Any, changes: Any) -> None:
        found = self._lake.properties(tuple(namespace))
        for change in changes:
            if str(change.getClass().getSimpleName()) == "SetProperty":
                found[str(change.property())] = str(change.value())
            else:
                found.pop(str(change.property()), None)
        self._lake.set_properties(tuple(namespace), found)

    def dropNamespace(self, namespace: Any, cascade: bool) -> bool:
        self._lake.drop_namespace(tuple(namespace), cascade)
        return True


def _place(identifier: Any) -> tuple[Namespace, str]:
    return tuple(identifier.namespace()), str(identifier.name())


def _number(text: str) -> int:
    try:
        return int(text)
    except ValueError:
        raise ValueError(f"invalid version {text!r}: expected a number") from None


def _quoted(name: str) -> str:
    return name if name.isidentifier() else f"`{name.replace('`', '``')}`"

"""`Planning.java`: what saves calls between the JVM and Python while Spark plans a query.

Spark asks the same questions of a table and its scans hundreds of times in a query, for example their names
whenever it describes a plan. Each question that reaches Python takes as long as a small part of a task.
Spark's own compiler of generated code makes the class, in the driver only.
"""

from __future__ import annotations

from importlib import resources
from typing import Any

from py4j.java_gateway import JavaClass

__all__ = ["compiled"]


def compiled(gateway: Any) -> Any:
    """Return an object of the class `Planning` in the JVM of a gateway."""
    client = gateway._gateway_client
    loader = JavaClass("org.apache.spark.util.Utils", client).getContextOrSparkClassLoader()
    compiler = JavaClass("org.codehaus.janino.SimpleCompiler", client)()
    compiler.setParentClassLoader(loader)
    compiler.cook(resources.files(__package__).joinpath("Planning.java").read_text("utf-8"))
    made = compiler.getClassLoader().loadClass("Planning")
    return made.getConstructors()[0].newInstance(
        gateway.new_array(JavaClass("java.lang.Object", client), 0)
    )

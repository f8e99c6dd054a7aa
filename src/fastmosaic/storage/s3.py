"""The S3 filesystem of pyarrow as one of s3fs, which can do what pyarrow cannot: conditional writes."""

from __future__ import annotations

from typing import Any, Final

from ..errors import UnsupportedError

# Headers that pyarrow sets for all files that it writes; it ignores other metadata.
_HEADERS: Final = ("ACL", "Cache-Control", "Content-Type", "Content-Language", "Expires")


def as_s3fs(filesystem: Any) -> Any:
    """Return a filesystem of s3fs with the settings of an S3FileSystem of pyarrow.

    The same settings return the same filesystem, because s3fs keeps its filesystems. Raises
    UnsupportedError if s3fs is not installed, or if pyarrow assumes a role.
    """
    try:
        from s3fs import S3FileSystem
    except ImportError:
        raise UnsupportedError(
            "pyarrow's S3FileSystem has no conditional writes, and s3fs, which has, is not "
            "installed: pip install 'fastmosaic[s3]'"
        ) from None
    return S3FileSystem(**_arguments(_settings(filesystem)))


def _settings(filesystem: Any) -> dict[str, Any]:
    """Return the arguments that make the same filesystem of pyarrow, as pickling does."""
    (settings,) = filesystem.__reduce__()[1]
    return dict(settings)


def _arguments(settings: dict[str, Any]) -> dict[str, Any]:
    """Return the arguments of s3fs for settings of pyarrow; those that are not set are left out."""
    if settings.get("role_arn"):
        raise UnsupportedError(
            "pyarrow's S3FileSystem has no conditional writes, and its role cannot be passed on "
            "to s3fs; pass a filesystem of s3fs as filesystem="
        )
    endpoint = settings["endpoint_override"]
    scheme = settings["scheme"] or "https"
    is_virtual = settings.get("force_virtual_addressing") or not endpoint
    client = {"region_name": settings["region"], "verify": settings.get("tls_ca_file_path")}
    config: dict[str, Any] = {"s3": {"addressing_style": "virtual" if is_virtual else "path"}}
    for name, option in (("connect", "connect_timeout"), ("read", "request_timeout")):
        if settings[option] > 0:
            config[f"{name}_timeout"] = settings[option]
    if settings["proxy_options"]["host"]:
        config["proxies"] = dict.fromkeys(("http", "https"), _url(**settings["proxy_options"]))
    arguments = {
        "key": settings["access_key"],
        "secret": settings["secret_key"],
        "token": settings["session_token"],
        "anon": settings["anonymous"],
        "endpoint_url": endpoint if "://" in endpoint else endpoint and f"{scheme}://{endpoint}",
        "client_kwargs": {name: value for name, value in client.items() if value},
        "config_kwargs": config,
        "s3_additional_kwargs": _headers(settings["default_metadata"] or {}),
    }
    return {
        "use_ssl": scheme == "https",
        **{name: value for name, value in arguments.items() if value},
    }


def _url(scheme: str, host: str, port: int, username: str, password: str) -> str:
    from urllib.parse import quote  # imported on use, because it takes long

    user = f"{quote(username, safe='')}:{quote(password, safe='')}@" if username else ""
    return f"{scheme}://{user}{host}:{port}"


def _headers(metadata: Any) -> dict[str, str]:
    """Return metadata as parameters of S3's operations, e.g. ContentType for Content-Type."""
    found = {bytes(name).decode(): bytes(value).decode() for name, value in dict(metadata).items()}
    return {name.replace("-", ""): found[name] for name in _HEADERS if name in found}

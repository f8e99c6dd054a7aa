"""Credentials in URIs, which never appear in names, messages and tracebacks."""

from __future__ import annotations

import re
from typing import Final

HIDDEN: Final = "***"

# Users of these schemes are names, not keys; of Azure's, they are containers.
_NAMED_USERS: Final = frozenset(
    {
        "abfs",
        "abfss",
        "wasb",
        "wasbs",
        "hdfs",
        "viewfs",
        "webhdfs",
        "sftp",
        "ssh",
        "ftp",
        "smb",
        "memory",
    }
)
# Parameters whose values help to find a mistake. The values of all others are hidden.
_HARMLESS: Final = frozenset(
    {
        *("region", "scheme", "endpoint_override", "force_virtual_addressing", "anonymous"),
        *("allow_bucket_creation", "allow_bucket_deletion", "allow_delayed_open"),
        *("background_writes", "check_directory_existence_before_creation"),
        *("tls_verify_certificates", "project_id", "default_bucket_location"),
        *("retry_limit_seconds", "enable_tls", "replication", "buffer_size"),
        *("default_block_size", "versionid", "x-amz-date", "x-amz-expires", "x-amz-algorithm"),
        *("x-amz-signedheaders", "se", "sp", "spr", "sr", "st", "sv"),
    }
)

_WHOLE: Final = re.compile(r"([A-Za-z][A-Za-z0-9+.-]+)(:/+)(.*)", re.DOTALL)
_EMBEDDED: Final = re.compile(r'([A-Za-z][A-Za-z0-9+.-]+)(:/+)([^\s"<>]*)')
_AUTHORITY: Final = re.compile(r"[^/?#]*")
_HOST: Final = re.compile(r"(?:[^:]*|\[[^\]]*\])(?::[0-9]*)?")
_ENCODED_USER: Final = re.compile(r"[^@]*(?::|%3A)[^@]*%40", re.IGNORECASE)
_COLON: Final = re.compile(":|%3A", re.IGNORECASE)
_QUERY: Final = re.compile(r"\?(?=[^/?=]+=)")  # otherwise, `?` may be a wildcard
_WEB_QUERY: Final = re.compile(r"\?")
_CLOSING: Final = re.compile(r"(?:['\")\]}]+[,.:;]?|[,.:;])$")


def redacted(uri: str) -> str:
    """Return a path or URI without credentials.

    Users and passwords are hidden, and all values of a query that are not known to be harmless.

    >>> from fastmosaic.storage.secrets import redacted
    >>> redacted("s3://AKIA:wJalr@bucket/a.mosaic?region=eu-west-1&token=x")
    's3://***@bucket/a.mosaic?region=eu-west-1&token=***'
    """
    if ":/" in uri and (whole := _WHOLE.fullmatch(uri)):
        return _without_secrets(*whole.groups())
    return redacted_text(uri)


def redacted_text(text: str, *uris: str) -> str:
    """Return a message in which URIs appear without credentials.

    They end at a space or a quote, except for the given `uris`.
    """
    for uri in uris:
        text = text.replace(uri, redacted(uri))
    if ":/" not in text:
        return text
    return _EMBEDDED.sub(lambda found: _without_secrets(*found.groups()), text)


def without_secrets(error: Exception, *uris: str) -> Exception:
    """Return an error to raise instead of `error`, in whose traceback no credentials appear.

    It is the error itself, changed if necessary, or another one if it cannot be changed.
    """
    seen: set[int] = set()

    def clean(one: BaseException) -> BaseException:
        if id(one) in seen:
            return one
        seen.add(id(one))
        if one.__cause__ is not None:
            suppresses = one.__suppress_context__
            one.__cause__ = clean(one.__cause__)
            one.__suppress_context__ = suppresses
        if one.__context__ is not None:
            one.__context__ = clean(one.__context__)
        notes = getattr(one, "__notes__", None)
        if notes:
            one.__notes__ = [redacted_text(note, *uris) for note in notes]
        return _changed(one, uris)

    changed = clean(error)
    assert isinstance(changed, Exception)
    return changed


def _changed(error: BaseException, uris: tuple[str, ...]) -> BaseException:
    """Return the error with a message that shows no credentials."""
    shown = f"{error} {error!r}"
    if redacted_text(shown, *uris) == shown:
        return error
    error.args = tuple(
        redacted_text(one, *uris) if isinstance(one, str) else one for one in error.args
    )
    if isinstance(error, OSError):
        for name in ("filename", "filename2", "strerror"):
            if isinstance(value := getattr(error, name), str):
                setattr(error, name, redacted_text(value, *uris))
    shown = f"{error} {error!r}"
    if redacted_text(shown, *uris) == shown:
        return error
    # Its message is made of something else than its arguments.
    kind = next((one for one in (OSError, ValueError) if isinstance(error, one)), RuntimeError)
    return kind(f"{type(error).__name__}: {redacted_text(str(error), *uris)}")


def _without_secrets(scheme: str, slashes: str, rest: str) -> str:
    kind = scheme.lower()
    if kind == "file":
        return f"{scheme}{slashes}{rest}"
    user, rest = _split_user(rest)
    if user is not None:
        slashes += _shown_user(kind, user)
    query = (_WEB_QUERY if kind.startswith("http") else _QUERY).search(rest)
    if query is not None:
        rest = rest[: query.end()] + _shown_parameters(rest[query.end() :])
    else:
        path, mark, fragment = rest.partition("#")
        if "=" in fragment:
            rest = path + mark + _shown_parameters(fragment)
    return f"{scheme}{slashes}{rest}"


def _split_user(rest: str) -> tuple[str | None, str]:
    """Return the user and password, if there are any, and what follows them."""
    found = _AUTHORITY.match(rest)
    authority = "" if found is None else found[0]
    if "@" in authority:
        end = authority.rindex("@")
    elif encoded := _ENCODED_USER.match(authority):
        return encoded[0][:-3], rest[encoded.end() :]
    elif _HOST.fullmatch(authority) is None and "@" in rest:
        end = rest.rindex("@")  # a key with a slash that should have been escaped
    else:
        return None, rest
    return rest[:end], rest[end + 1 :]


def _shown_user(scheme: str, user: str) -> str:
    name, *password = _COLON.split(user, maxsplit=1)
    if user == "anonymous" or (scheme in _NAMED_USERS and not password):
        return f"{user}@"
    return f"{name}:{HIDDEN}@" if scheme in _NAMED_USERS and name else f"{HIDDEN}@"


def _shown_parameters(query: str) -> str:
    closing = _CLOSING.search(query)
    end = "" if closing is None else closing[0]
    parts = re.split("([&;#])", query.removesuffix(end))
    return "".join(part if part in "&;#" else _shown_parameter(part) for part in parts) + end


def _shown_parameter(part: str) -> str:
    from urllib.parse import unquote  # imported on use, because it takes long

    name, equals, value = part.partition("=")
    if not equals:
        return HIDDEN
    is_harmless = unquote(name).lower() in _HARMLESS and "@" not in unquote(unquote(value))
    return part if is_harmless else f"{name}={HIDDEN}"

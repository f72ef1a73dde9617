"""Checked files: JSON with a schema number and a checksum, and the checksums of files beside it.

A checksum is the last key of a JSON file, and that of all bytes before it, so that it is checked
without parsing. What does not fit it, or has other types than its form says, is set aside. Files of
earlier versions have no checksum, and are held to their types alone.
"""

import errno
import hashlib
from collections.abc import Iterable, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any, NamedTuple

from pydantic_core import SchemaValidator, ValidationError, from_json

from dataeff.damage import Cure, Damaged, Newer, put_aside
from dataeff.errors import DataeffError
from dataeff.files import json_text, make_way, read_bytes, write_bytes

_MARK, _END = b',\n "checksum": "', b'"\n}\n'
# What is there and cannot be read: a folder or a loop of links in its place, a bad disk, no right.
_UNREADABLE = (errno.EISDIR, errno.ELOOP, errno.EIO, errno.EACCES, errno.EPERM)


Sums = Mapping[str, str]
"""Checksums of files, by their names."""


class Form(NamedTuple):
    """What a JSON file of ours holds: `check` says which types, `cure` what heals a damaged one.

    From the schema `checked` on it has a checksum. One that is kept `twice` has a copy beside it.
    """

    schema: int
    check: SchemaValidator
    cure: Cure
    twice: bool = False
    checked: int = 1


def digest(content: bytes) -> str:
    """Return the checksum of a file."""
    return hashlib.blake2b(content, digest_size=16).hexdigest()


def copy_of(path: Path) -> Path:
    """Return where the copy of a file is that is kept twice."""
    return path.with_name(f"{path.name}.copy")


# Writing -----------------------------------------------------------------------------------------


def write_checked(path: Path, content: Mapping[str, Any], form: Form) -> str:
    """Write a JSON file of ours, its schema number first and its checksum last; return that."""
    rest = {key: value for key, value in content.items() if key not in ("schema", "checksum")}
    head = json_text({"schema": form.schema, **rest}).removesuffix("\n}").encode()
    whole = head + _MARK + digest(head).encode() + _END
    try:
        form.check.validate_json(whole)
    except ValidationError as error:
        # Better not written than set aside by whoever reads it.
        raise DataeffError(f"{path} cannot hold this: {_reason(error)}") from None
    for place in (path, copy_of(path)) if form.twice else (path,):
        make_way(place, form.cure)
        write_bytes(place, whole)
    return digest(head)


def write_entries(path: Path, entries: Iterable[Any], form: Form) -> None:
    """Write a JSON file of ours that is a list."""
    write_checked(path, {"entries": list(entries)}, form)


# Reading -----------------------------------------------------------------------------------------


def read_checked(path: str | Path, form: Form) -> Any:
    """Read a JSON file of ours; None where there is none, and where there is none that is whole.

    What is damaged is set aside. Of what is kept twice the copy serves then, and is written back.
    """
    if form.twice:
        return _read_twice(Path(path), form)
    try:
        content = read_whole(path)
        return None if content is None else _opened(content, form)
    except Damaged as damage:
        put_aside(Path(path), damage, form.cure)
        return None


def read_entries(path: Path, form: Form) -> list[Any]:
    """Read a JSON file of ours that is a list; nothing where there is none that is whole."""
    return (read_checked(path, form) or {}).get("entries", [])


def read_whole(path: str | Path, known: str | None = None) -> bytes | None:
    """Read a file; None where there is none. What has another checksum than is known is damaged."""
    try:
        content = read_bytes(path)
    except FileNotFoundError:
        return None
    except OSError as error:
        raise unreadable(error) from None
    if known is not None and digest(content) != known:
        raise Damaged("checksum")
    return content


def unreadable(error: OSError) -> Exception:
    """Return what is wrong with a file that is there and cannot be read, if it is the file."""
    return Damaged(str(error.strerror)) if error.errno in _UNREADABLE else error


class _Twin(NamedTuple):
    """One of two files that hold the same: its bytes, what they say, and what is wrong with it."""

    path: Path
    content: bytes | None = None
    says: Any = None
    damage: Damaged | None = None


def _read_twice(path: Path, form: Form) -> Any:
    own, copy = (_twin(one, form) for one in (path, copy_of(path)))
    whole = own if own.says is not None else copy
    for twin in (own, copy):
        if twin.damage:
            put_aside(twin.path, twin.damage, form.cure if whole.damage else _twin_serves)
    # A file without a copy is of an earlier version, or published: it stays alone.
    stale = own if whole is copy else copy
    differs = stale is own or stale.damage or stale.content not in (None, whole.content)
    if whole.content is not None and differs:
        with suppress(OSError):
            write_bytes(stale.path, whole.content)
    return whole.says


def _twin_serves(path: Path) -> str:
    return "it is kept twice, so nothing is lost"


def _twin(path: Path, form: Form) -> _Twin:
    try:
        content = read_whole(path)
        return _Twin(path) if content is None else _Twin(path, content, _opened(content, form))
    except Damaged as damage:
        return _Twin(path, damage=damage)


def _opened(content: bytes, form: Form) -> Any:
    """Return what a file says, if it is as it was written and of the types of its form."""
    head, mark, tail = content.rpartition(_MARK)
    if mark and tail != digest(head).encode() + _END:
        raise Damaged("checksum")
    if content[:1] == b"[":
        # Lists of earlier versions have no schema.
        content = b'{"entries": ' + content + b"}"
    try:
        says = form.check.validate_json(content)
    except ValidationError as error:
        raise _newer(content, form) or Damaged(_reason(error)) from None
    schema = says.get("schema", 0)
    if schema > form.schema:
        raise Newer(schema, form.schema)
    if not mark and ("checksum" in says or schema >= form.checked):
        raise Damaged("checksum")
    return says


def _newer(content: bytes, form: Form) -> Newer | None:
    """Return what is wrong with a file of other types, if that is its version."""
    with suppress(ValueError):
        says = from_json(content)
        schema = says.get("schema") if isinstance(says, dict) else None
        if type(schema) is int and schema > form.schema:
            return Newer(schema, form.schema)
    return None


def _reason(error: ValidationError) -> str:
    """Return the first thing that is wrong with the types of a file."""
    first = error.errors(include_url=False, include_context=False, include_input=False)[0]
    place = ".".join(map(str, first["loc"]))
    return f"{place}: {first['msg']}" if place else first["msg"]

"""Objects behind http(s) and s3, through obstore."""

from __future__ import annotations

import os
import re
import threading
from collections.abc import Callable, Iterator
from datetime import timedelta
from typing import TYPE_CHECKING, Any
from urllib.parse import unquote, urlsplit

from napari_decant.errors import (
    AccessRefused,
    MissingKey,
    SourceChanged,
    StorageError,
    UnsafeInput,
    UnsupportedOperation,
    UsageError,
)
from napari_decant.stores._base import Extent, Store
from napari_decant.stores._keys import check_key, check_prefix
from napari_decant.stores._positional import PositionalFile

if TYPE_CHECKING:
    from obstore import GetOptions
    from obstore.store import ClientConfig, HTTPStore, RetryConfig, S3Store

__all__ = ["RemoteFile", "RemoteStore"]

_MAX_KNOWN_SIZES = 65_536
_SILENCE = timedelta(seconds=15)  # that a server may keep; a slow one that goes on sending is waited for
_RETRYING = timedelta(seconds=20)  # after that a failure stands
_NO_RANGES = "{uri} is on a server that does not serve byte ranges; download it first"
_STATUS = re.compile(r"status code: (\d{3}(?: [A-Z][A-Za-z]*)*)")
_CREDENTIALS = (
    "AWS_ACCESS_KEY_ID",
    "AWS_WEB_IDENTITY_TOKEN_FILE",
    "AWS_CONTAINER_CREDENTIALS_RELATIVE_URI",
    "AWS_CONTAINER_CREDENTIALS_FULL_URI",
)


class _Bucket:
    """One server or bucket; opened where first needed, so that it costs nothing to hold or pickle."""

    def __init__(self, uri: str) -> None:
        parts = urlsplit(uri)
        if parts.query or parts.fragment:
            raise UnsupportedOperation(f"{uri} has a query or fragment; give the address without it")
        if not parts.netloc:
            raise UsageError(f"{uri} names no {'bucket' if parts.scheme == 's3' else 'server'}")
        self.uri, self.scheme, self.netloc = uri.rstrip("/"), parts.scheme, parts.netloc
        self.path = "/".join(part for part in unquote(parts.path).split("/") if part)
        self._lock = threading.Lock()
        self._store: HTTPStore | S3Store | None = None

    def store(self) -> HTTPStore | S3Store:
        with self._lock:
            if self._store is None:
                self._store = self._connect()
            return self._store

    def _connect(self) -> HTTPStore | S3Store:
        from obstore.store import HTTPStore, S3Store

        client: ClientConfig = {"connect_timeout": "10s", "read_timeout": _SILENCE, "timeout": "900s"}
        retry: RetryConfig = {"max_retries": 3, "retry_timeout": _RETRYING}
        if self.scheme == "s3":
            endpoint = os.environ.get("AWS_ENDPOINT_URL_S3") or os.environ.get("AWS_ENDPOINT_URL") or ""
            client["allow_http"] = endpoint.startswith("http://")
            # Without credentials a signed request would first ask the cloud's metadata service, for seconds.
            anonymous = not any(os.environ.get(name) for name in _CREDENTIALS)
            return S3Store(self.netloc, skip_signature=anonymous, client_options=client, retry_config=retry)
        client["allow_http"] = self.scheme == "http"
        return HTTPStore.from_url(f"{self.scheme}://{self.netloc}", client_options=client, retry_config=retry)

    def object(self, key: str) -> str:
        """Object path of a key; http servers get each component percent-encoded by the client."""
        return f"{self.path}/{key}" if self.path and key else self.path or key

    def error(self, what: str, error: Exception) -> StorageError:
        from obstore.exceptions import PermissionDeniedError

        kind = AccessRefused if isinstance(error, PermissionDeniedError) else StorageError
        return kind(f"cannot read {what}: {_reason(error)}")


def _reason(error: Exception) -> str:
    """Why a request failed and what to do; obstore tells it only in the text of its errors."""
    from obstore.exceptions import PermissionDeniedError, UnauthenticatedError

    text = str(error)
    if isinstance(error, (PermissionDeniedError, UnauthenticatedError)):
        return "the server refuses access; check the address, and for s3 the AWS_* variables"
    status = _STATUS.search(text)
    if status is not None:
        return f"the server answers {status[1]}; try again later"
    if "kind: Timeout" in text:
        return "the server does not answer; try again later"
    if "kind: Connect" in text:
        return "the server cannot be reached; check the address and the network"
    return text.split("\n", 1)[0][:300]


def _meta_size(result: Any) -> int:
    return int(result.meta["size"])


class RemoteStore(Store):
    """A store below an ``http(s)://`` or ``s3://`` address.

    Every read is one ranged request; several may be in flight. From a server without ranges, objects are read
    as wholes, and parts of them are refused. Http servers cannot list, so `list_dir` and
    `keys` raise `UnsupportedOperation` there; images open without listing. S3 takes endpoint, region and
    credentials from the usual ``AWS_*`` variables and reads anonymously where there are no credentials.

    Parameters
    ----------
    uri : str
        The address of the root, without a query.
    """

    remote = True

    def __init__(self, uri: str) -> None:
        self._bucket = _Bucket(uri)
        self.uri = self._bucket.uri
        self.listable = self._bucket.scheme == "s3"
        self._sizes: dict[str, int] = {}
        self._ranges = True  # until the server turns out to give whole objects only
        self._closed = False

    def __reduce__(self) -> tuple[type[RemoteStore], tuple[str]]:
        return type(self), (self.uri,)

    def _object(self, key: str) -> str:
        if self._closed:
            raise StorageError(f"{self.uri} is closed")
        return self._bucket.object(check_key(key, self.uri))

    def _remember(self, key: str, size: int) -> None:
        if len(self._sizes) >= _MAX_KNOWN_SIZES:
            self._sizes.clear()
        self._sizes[key] = size

    def extent(self, key: str) -> Extent | None:
        """See `Store.extent`; asks the server once per key."""
        import obstore

        path = self._object(key)
        size = self._sizes.get(key)
        if size is None:
            try:
                size = int(obstore.head(self._bucket.store(), path)["size"])
            except FileNotFoundError:
                return None
            except Exception as error:
                raise self._bucket.error(f"{key!r} of {self.uri}", error) from error
            self._remember(key, size)
        return Extent(key, 0, size)

    def read_file(self, file: str, offset: int, length: int) -> bytes:
        """See `Store.read_file`."""
        return bytes(self._get_range(file, offset, length))

    def _get_range(self, file: str, offset: int, length: int) -> memoryview:
        import obstore

        path = self._object(file)
        if length <= 0:
            return memoryview(b"")
        whole = offset == 0 and length == self._sizes.get(file)
        try:
            if whole and not self._ranges:
                return self._get_whole(path, file, length)
            data = memoryview(obstore.get_range(self._bucket.store(), path, start=offset, length=length))
        except FileNotFoundError as error:
            raise MissingKey(f"{self.uri} has no entry {file!r}") from error
        except StorageError:
            raise
        except Exception as error:
            if "Range request not supported" in str(error):
                self._ranges = False
                if whole:
                    return self._get_range(file, offset, length)
                raise StorageError(_NO_RANGES.format(uri=self.uri)) from error
            raise self._bucket.error(
                f"{length:,} bytes at {offset:,} of {file!r} in {self.uri}", error
            ) from error
        if data.nbytes != length:
            raise StorageError(
                f"{file!r} in {self.uri} has no {length:,} bytes at {offset:,}; it is cut short"
            )
        return data

    def _get_whole(self, path: str, file: str, length: int) -> memoryview:
        """Read an object of known size without asking for a range of it."""
        import obstore

        result = obstore.get(self._bucket.store(), path)
        if _meta_size(result) != length:
            raise StorageError(
                f"{file!r} in {self.uri} has {_meta_size(result):,} bytes where it had {length:,};"
                " it changed on its server: open it again"
            )
        return memoryview(result.bytes())

    def read_file_into(self, file: str, offset: int, out: memoryview) -> None:
        """See `Store.read_file_into`."""
        view = out.cast("B")
        view[:] = self._get_range(file, offset, view.nbytes)

    def read(self, key: str, start: int = 0, stop: int | None = None, *, limit: int | None = None) -> bytes:
        """See `Store.read`; a whole key takes one request, not two."""
        if start or stop is not None:
            return super().read(key, start, stop, limit=limit)

        def reserve(size: int) -> None:
            if limit is not None and size > limit:
                raise UnsafeInput(
                    f"{key!r} in {self.uri} has {size:,} bytes; more than {limit:,} are not read"
                )

        data = self.read_optional(key, reserve)
        if data is None:
            raise MissingKey(f"{self.uri} has no entry {key!r}")
        return data

    def read_optional(self, key: str, reserve: Callable[[int], None] | None = None) -> bytes | None:
        """See `Store.read_optional`; the size comes with the answer, before its body is taken."""
        import obstore

        path = self._object(key)
        try:
            result = obstore.get(self._bucket.store(), path)
        except FileNotFoundError:
            return None
        except Exception as error:
            raise self._bucket.error(f"{key!r} of {self.uri}", error) from error
        size = _meta_size(result)
        if reserve is not None:
            reserve(size)
        self._remember(key, size)
        try:
            return bytes(result.bytes())
        except Exception as error:
            raise self._bucket.error(f"{key!r} of {self.uri}", error) from error

    def _listable(self) -> None:
        if self._closed:
            raise StorageError(f"{self.uri} is closed")
        if not self.listable:
            raise UnsupportedOperation(f"{self.uri} cannot be listed: http servers do not say what they hold")

    def list_dir(self, prefix: str = "") -> tuple[list[str], list[str]]:
        """See `Store.list_dir`."""
        import obstore

        self._listable()
        root = self._bucket.object(check_prefix(prefix, self.uri))
        try:
            found = obstore.list_with_delimiter(self._bucket.store(), root or None)
        except Exception as error:
            raise self._bucket.error(f"the listing of {self.uri}", error) from error
        skip = len(root.rstrip("/")) + 1 if root else 0
        groups = [name[skip:].strip("/") for name in found["common_prefixes"]]
        return sorted(groups), sorted(str(item["path"])[skip:] for item in found["objects"])

    def keys(self, prefix: str = "") -> Iterator[str]:
        """See `Store.keys`."""
        import obstore

        self._listable()
        root = self._bucket.object(check_prefix(prefix, self.uri))
        skip = len(self._bucket.path) + 1 if self._bucket.path else 0
        try:
            for batch in obstore.list(self._bucket.store(), root or None, chunk_size=1000):
                for item in batch:
                    yield str(item["path"])[skip:]
        except Exception as error:
            raise self._bucket.error(f"the listing of {self.uri}", error) from error

    def close(self) -> None:
        """See `Store.close`."""
        self._closed = True


class RemoteFile(PositionalFile):
    """One object read through ranges.

    The first request takes the object's end, which gives its size and, for a zip file, its directory.

    Parameters
    ----------
    uri : str
        The object's address.
    first_tail : int, optional
        How many bytes of its end the first request takes.
    """

    remote = True

    def __init__(self, uri: str, first_tail: int = 1 << 20) -> None:
        import obstore

        self._bucket = _Bucket(uri)
        self.uri = self._bucket.uri
        self._closed = False
        try:
            result = obstore.get(
                self._bucket.store(), self._bucket.path, options={"range": {"suffix": first_tail}}
            )
            self.size = _meta_size(result)
            self._etag = result.meta["e_tag"]
            start, stop = result.range
            if stop - start > first_tail:
                raise StorageError(_NO_RANGES.format(uri=self.uri))
            self._tail = bytes(result.bytes())
        except FileNotFoundError as error:
            raise StorageError(f"{self.uri} does not exist") from error
        except StorageError:
            raise
        except Exception as error:
            if "Range request not supported" in str(error):
                raise StorageError(_NO_RANGES.format(uri=self.uri)) from error
            raise self._bucket.error(f"{self.uri} by byte ranges", error) from error

    def tail(self, length: int) -> bytes:
        """See `PositionalFile.tail`."""
        if length <= len(self._tail) or len(self._tail) == self.size:
            return self._tail[-length:] if length else b""
        return super().tail(length)

    def read_at(self, offset: int, length: int) -> bytes:
        """See `PositionalFile.read_at`."""
        return bytes(self._get(offset, length))

    def read_into(self, offset: int, out: memoryview) -> None:
        """See `PositionalFile.read_into`."""
        view = out.cast("B")
        view[:] = self._get(offset, view.nbytes)

    def _get(self, offset: int, length: int) -> memoryview:
        import obstore
        from obstore.exceptions import PreconditionError

        if self._closed:
            raise StorageError(f"{self.uri} is closed")
        if offset < 0 or offset + length > self.size:
            raise self._short(offset, length)
        if not length:
            return memoryview(b"")
        options: GetOptions = {"range": (offset, offset + length)}
        if self._etag and not self._etag.startswith("W/"):
            options["if_match"] = self._etag
        try:
            data = memoryview(obstore.get(self._bucket.store(), self._bucket.path, options=options).bytes())
        except PreconditionError as error:
            raise SourceChanged(
                f"{self.uri} changed on its server since it was opened; open it again"
            ) from error
        except Exception as error:
            raise self._bucket.error(f"{length:,} bytes at {offset:,} of {self.uri}", error) from error
        if data.nbytes != length:
            raise self._short(offset, length)
        return data

    def close(self) -> None:
        """See `PositionalFile.close`."""
        self._closed = True

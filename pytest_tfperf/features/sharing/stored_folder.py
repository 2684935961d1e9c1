"""Documents as files: in a folder, by the standard library alone, or in a store that fsspec has a file system for."""

from __future__ import annotations

import errno
import os
import secrets
import stat
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from functools import cached_property
from pathlib import Path
from typing import Any, Final
from urllib.parse import unquote

from pytest_tfperf.core.history_url import VARIABLE, HistoryUrl
from pytest_tfperf.errors import TfperfError, worded
from pytest_tfperf.features.sharing.destination import MOST_BYTES, is_name, portions, require_storable

_UNFINISHED: Final = ".part"  # the end of a file's name while it is written; such a file is never listed
_GONE: Final = (errno.ENOENT, errno.ENOTDIR, errno.ELOOP, errno.EACCES, errno.ENXIO)  # or a link, or unreadable
_NO_LINKS: Final = (errno.EPERM, errno.ENOTSUP, errno.ENOSYS)  # of a file system without hard links
_CONNECT_SECONDS: Final = 10
_SILENT_SECONDS: Final = 60


class Folder:
    """Documents in a folder, which may be on a network's file system. Links in it are not followed."""

    def __init__(self, path: Path) -> None:
        self._path = path

    def list(self, prefix: str = "v1/") -> Sequence[str]:
        """Return the names that begin with the prefix."""
        top = self._path / prefix.rpartition("/")[0]
        names: list[str] = []
        with self._worded("read"), suppress(FileNotFoundError), os.scandir(top):
            for folder, _, files in os.walk(top):
                inner = Path(folder).relative_to(self._path).as_posix()
                names += [name for file in files if (name := f"{inner}/{file}").startswith(prefix)]
        return [name for name in names if not name.endswith(_UNFINISHED)]

    def get(self, names: Sequence[str]) -> Iterator[tuple[str, bytes]]:
        """Yield names and documents in this order."""
        for name in names:
            with self._worded("read"):
                data = self._read(self._path / name) if is_name(name) else None
            if data is not None:
                yield name, data

    def put(self, documents: Mapping[str, bytes]) -> None:
        """Store the documents."""
        require_storable(documents)
        with self._worded("written"):
            for name, data in documents.items():
                self._write(self._path / name, data)

    def _read(self, path: Path) -> bytes | None:
        if self._leads_out(path):
            return None
        try:
            about = path.lstat()
            if not stat.S_ISREG(about.st_mode) or about.st_size > MOST_BYTES:
                return None
            # It may be a link or a pipe by now.
            descriptor = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK)
        except OSError as error:
            if error.errno in _GONE:
                return None
            raise
        with os.fdopen(descriptor, "rb") as file:
            return file.read(MOST_BYTES)

    def _write(self, path: Path, data: bytes) -> None:
        if self._leads_out(path):
            raise TfperfError(f"{path}: a link leads out of {self._path}", next_step="Remove it")
        if path.exists():
            return
        path.parent.mkdir(parents=True, exist_ok=True)
        unfinished = path.with_name(f".{secrets.token_hex(8)}{_UNFINISHED}")
        try:
            with unfinished.open("xb") as file:
                file.write(data)
                file.flush()
                os.fsync(file.fileno())
            with suppress(FileExistsError):  # another has stored it meanwhile
                _link(unfinished, path)
        finally:
            with suppress(OSError):
                unfinished.unlink()

    def _leads_out(self, path: Path) -> bool:
        return path.parent.resolve() != self._path.resolve() / path.parent.relative_to(self._path)

    def _worded(self, verb: str) -> Any:
        return worded(self._path, verb, f"Correct the permissions of the folder, or name another in {VARIABLE}")


def _link(unfinished: Path, path: Path) -> None:
    try:
        os.link(unfinished, path)  # unlike a rename, it never replaces a file
    except OSError as error:
        if error.errno not in _NO_LINKS:
            raise
        unfinished.rename(path)


class Store:
    """Documents in a store, by fsspec's file system for the URL's scheme."""

    def __init__(self, url: HistoryUrl) -> None:
        self._url = url
        self._sizes: dict[str, int] = {}  # of listed documents, in bytes

    def list(self, prefix: str = "v1/") -> Sequence[str]:
        """Return the names that begin with the prefix."""
        with self._worded("read"):
            top = self._path(prefix.rpartition("/")[0])
            self._files.invalidate_cache()
            if self._renames and not self._about(top):  # `find` would hide why it can't be read
                return []
            found = self._files.find(top, detail=True).items()
            start = len(self._path(""))
            names = {path[start:]: about["size"] for path, about in found if about.get("type") == "file"}
        self._sizes |= names
        return [name for name in names if name.startswith(prefix) and not name.endswith(_UNFINISHED)]

    def get(self, names: Sequence[str]) -> Iterator[tuple[str, bytes]]:
        """Yield names and documents in this order, some at a time."""
        sizes = ((name, size) for name in names if is_name(name) and (size := self._size(name)))
        for portion in portions(sizes):
            with self._worded("read"):
                paths, ends = [*map(self._path, portion)], [*map(self._size, portion)]
                documents = self._files.cat_ranges(paths, [0] * len(paths), ends, on_error="return")
                for document in documents:
                    if isinstance(document, Exception) and not isinstance(document, FileNotFoundError):
                        raise document
            for name, document in zip(portion, documents, strict=True):
                if not isinstance(document, Exception):
                    yield name, document

    def put(self, documents: Mapping[str, bytes]) -> None:
        """Store the documents."""
        require_storable(documents)
        for name, data in documents.items():
            with self._worded("written"), suppress(FileExistsError):
                if self._renames:
                    self._write(self._path(name), data)
                else:
                    self._upload(self._path(name), data)

    def _upload(self, path: str, data: bytes) -> None:
        try:
            self._files.pipe_file(path, data, mode="create")
        except OSError as error:
            # Some stores with S3's interface can't ask for a name that is new.
            if error.errno != errno.ENOSYS:
                raise
            if not self._files.exists(path):
                self._files.pipe_file(path, data)

    def _write(self, path: str, data: bytes) -> None:
        if self._files.exists(path):
            return
        folder = path.rpartition("/")[0]
        unfinished = f"{folder}/.{secrets.token_hex(8)}{_UNFINISHED}"
        self._files.makedirs(folder, exist_ok=True)
        try:
            self._files.pipe_file(unfinished, data)
            self._files.mv(unfinished, path)
        except BaseException:
            with suppress(Exception):
                self._files.rm_file(unfinished)
            raise

    def _size(self, name: str) -> int:
        """A document's size; 0 where there is none."""
        if name not in self._sizes:
            with self._worded("read"):
                about = self._about(self._path(name))
                self._sizes[name] = about["size"] if about.get("type") == "file" else 0
        return self._sizes[name]

    def _about(self, path: str) -> Mapping[str, Any]:
        try:
            about: Mapping[str, Any] = self._files.info(path)
        except FileNotFoundError:
            return {}
        return about

    def _path(self, name: str) -> str:
        top: str = self._files._strip_protocol(self._url.address)
        return f"{top.rstrip('/')}/{name}"

    @property
    def _renames(self) -> bool:
        """Whether a file of this file system gets its name before its content, unless it is renamed, as over SFTP."""
        import fsspec

        has_put = type(self._files).pipe_file is not fsspec.AbstractFileSystem.pipe_file
        return not has_put and not self._files.async_impl

    @cached_property
    def _files(self) -> Any:
        try:
            import fsspec
        except ModuleNotFoundError:
            raise TfperfError(
                f"{self._url}: the package fsspec is not installed", next_step="pip install 'pytest-tfperf[sharing]'"
            ) from None
        scheme = self._url.address.partition("://")[0]
        kind = fsspec.get_filesystem_class(scheme)  # raises what is missing: "Install s3fs to access S3"
        options = kind._get_kwargs_from_urls(self._url.address)
        for login in ("username", "password"):
            if login in options:
                options[login] = unquote(options[login])
        if scheme in ("sftp", "ssh"):
            kind = _of_known_hosts(kind)
            options["timeout"] = _CONNECT_SECONDS
        return kind(**options, skip_instance_cache=True)

    @contextmanager
    def _worded(self, verb: str) -> Iterator[None]:
        try:
            yield
        except (FileExistsError, TfperfError):
            raise
        except Exception as error:  # each store's driver has types of its own
            why = " ".join(self._url.without_secrets(str(error)).split()).rstrip(".") or type(error).__name__
            raise TfperfError(
                f"{self._url}: the history can't be {verb}: {why}",
                next_step="Check the address, the credentials and the network",
            ) from None


def _of_known_hosts(kind: Any) -> Any:
    """Return fsspec's SFTP without its trust in any server: a host has to be in ~/.ssh/known_hosts, as for ssh."""
    import paramiko

    class Sftp(kind):  # type: ignore[misc]  # found at run time
        def _connect(self) -> None:
            self.client = paramiko.SSHClient()
            self.client.load_system_host_keys()
            self.client.connect(self.host, **self.ssh_kwargs)
            self.ftp = self.client.open_sftp()
            self.ftp.get_channel().settimeout(_SILENT_SECONDS)

    return Sftp

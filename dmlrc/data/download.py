"""Where a data set is read from: its folder, its archives, or a checked download from its official source.

An archive is downloaded into DMLRC_DATA/downloads/<set>/, where a cut connection is continued and where a file that
was brought by hand is found; its MD5 sum is compared where an official one is known (CUB200, SOP, Omniglot, Cars196;
not for In-Shop and Grocery Store). It is unpacked into a temporary folder, the images and classes are counted, and only
then the folder gets the set's name: a set that is there is complete.

A data folder may also hold a set as its archives, in the folder of the set, and may be read-only: the set is then
unpacked into the cache when it is first read. Its archives need not be the official files byte by byte (a set that was
packed anew is as good), so their MD5 sums are not compared; the images and classes are counted.

Only Omniglot, CUB200, SOP and Grocery Store have links. Cars196 (dead links) and In-Shop (a licence agreement) need the
files brought by hand; the error says which and where to put them.
"""

import gzip
import os
import shutil
import stat
import tarfile
import time
import zipfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path, PurePosixPath, PureWindowsPath

import pooch
import requests
from tqdm import tqdm

from dmlrc.data import cache
from dmlrc.data.available import EMBEDDED
from dmlrc.data.listing import Listing, data_root
from dmlrc.data.registry import SOURCES, Archive, Source, downloads_folder, home_in, packed, unpacked, way_to_get
from dmlrc.errors import DmlrcError, MissingDataError, UsageError, unknown

_ATTEMPTS = 5  # connections per call; a later call continues too
_PAUSE = 1.0  # seconds before the second connection, doubled before each further one
_TIMEOUT = 30  # seconds without a byte
_CHUNK = 1 << 16  # bytes
_OTHER_MEMBERS = 10_000  # of archives, beside two an image
_CUT = (requests.ConnectionError, requests.Timeout, requests.exceptions.ChunkedEncodingError)


def fetch(name: str, root: str | os.PathLike | None = None) -> Path:
    """Makes sure that a data set is there and complete, downloading it if need be; returns its folder.

    root: the folder of all data sets, defaults to $DMLRC_DATA. Raises MissingDataError with the way out for a dead link
    or a file that only a person can get, DmlrcError for a wrong checksum, an unsafe archive or a wrong count.
    """
    source, home = _source(name), data_root(root)
    if unpacked(name, home) or packed(name, home):
        check(name, home)
        return locate(name, home)
    final = home / source.folders[0]
    if final.exists() and any(final.iterdir()):
        raise DmlrcError(f"{final} is there but does not hold data set {name!r}: remove it and try again")
    with _explained(f"data set {name!r} cannot be written to {home}"):
        brought = set(downloads_folder(name, home).glob("*"))
        files = _archives(name, source, home)
        cache.build_folder(final, lambda folder: _unpack_all(name, source, folder, files))
        for file in files:
            if file not in brought:  # what a person brought is theirs to remove
                file.unlink()
    return locate(name, home)


def check(name: str, root: str | os.PathLike | None = None) -> Listing:
    """Counts the images and classes of a data set against those of the complete one, without decoding any image.

    Raises MissingDataError if the set or one of its files is not there, DmlrcError if a count is wrong.
    """
    source, folder = _source(name), locate(name, data_root(root))
    return _counted(name, source, folder, place=str(folder))


def locate(name: str, root: Path) -> Path:
    """The folder of a data set, in the cache if the root holds only its archives, which are then unpacked once.

    Raises MissingDataError with the way to get the set, DmlrcError for archives that are damaged, unsafe or incomplete.
    """
    if folder := unpacked(name, root):
        return folder
    source, files = SOURCES[name], packed(name, root)
    if files is None:
        raise MissingDataError(
            f"data set {name!r} is not in {root / source.folders[0]}, where DMLRC_DATA or root leads: "
            f"{way_to_get(name, root)}"
        )
    folder = cache.folder(
        f"{name}-{cache.fingerprint(files, 'unpacked')}",
        lambda target: _unpack_all(name, source, target, files),
    )
    home = home_in(folder, source.markers)
    if home is None:
        raise DmlrcError(f"{folder} in the cache has become incomplete: remove it, it will be unpacked again")
    return home


def _source(name: str) -> Source:
    if name in EMBEDDED:
        raise UsageError(
            f"data set {name!r} is drawn or read from the package: there is nothing to download or to check"
        )
    if name not in SOURCES:
        raise unknown("data set", name, SOURCES)
    return SOURCES[name]


def _counted(name: str, source: Source, folder: Path, place: str) -> Listing:
    """The listing of a complete set, of which every image is there. place: see `require_whole`."""
    listing = source.listing(folder)
    require_whole(name, listing, place)
    if absent := next((file for file in listing.files if not os.path.exists(file)), None):
        image = absent.relative_to(folder)
        raise MissingDataError(f"image {image} of data set {name!r} is not there: remove {place}, get the set again")
    return listing


def require_whole(name: str, listing: Listing, place: str) -> None:
    """Raise DmlrcError where a set lists other numbers of images or classes than the complete one.

    place: what the error tells to remove, the folder or what it was unpacked from.
    """
    source = SOURCES[name]
    found, expected = (len(listing.files), len(listing.class_names)), (source.images, source.classes)
    if found != expected:
        raise DmlrcError(
            f"data set {name!r} in {place} has {found[0]} images of {found[1]} classes instead of {expected[0]} of "
            f"{expected[1]}: remove {place}, get the set again"
        )


def _archives(name: str, source: Source, root: Path) -> list[Path]:
    """The files of the distribution, all of them there and checked, those with a link downloaded."""
    folder = downloads_folder(name, root)
    if any(archive.url is None and not (folder / archive.filename).exists() for archive in source.archives):
        raise MissingDataError(f"data set {name!r} cannot be downloaded: {way_to_get(name, root)}")
    new = [each for each in (folder, folder.parent, root) if not each.exists()]
    folder.mkdir(parents=True, exist_ok=True)
    try:
        return [_archive(name, archive, folder, source.most_bytes) for archive in source.archives]
    except BaseException:
        with suppress(OSError):  # what has arrived stays, to be continued
            for each in new:
                each.rmdir()
        raise


def _archive(name: str, archive: Archive, folder: Path, most: int) -> Path:
    """One file of the distribution, of at most so many bytes."""
    file = folder / archive.filename
    if file.exists():
        if archive.md5 and pooch.file_hash(str(file), alg="md5") != archive.md5:
            raise DmlrcError(f"{file} is not the official file, its MD5 sum is not {archive.md5}: remove it")
        return file
    way_out = f"run `dmlrc data fetch {name}` again, or put {archive.filename} into {folder} and then run it"
    try:
        pooch.get_logger().setLevel("WARNING")  # it would print the folder and the checksum of every file
        pooch.retrieve(
            archive.url,
            known_hash=archive.md5 and f"md5:{archive.md5}",
            fname=archive.filename,
            path=folder,
            downloader=lambda url, target, _: _download(url, file.with_name(f"{file.name}.part"), Path(target), most),
        )
    except requests.RequestException as error:
        answer = getattr(error.response, "status_code", None)
        reason = f"the server answers {answer}" if answer else f"{type(error).__name__}, the connection failed"
        raise MissingDataError(f"{archive.url} cannot be downloaded ({reason}): {way_out}") from error
    except ValueError as error:  # of pooch, which has removed the file
        raise DmlrcError(
            f"{archive.url} gave a file whose MD5 sum is not the official {archive.md5}, it was removed: {way_out}"
        ) from error
    return file


def _download(url: str, part: Path, target: Path, most: int) -> None:
    """Downloads into `part`, which keeps what arrived when the connection is cut, and renames it when complete."""
    for attempt in range(_ATTEMPTS):
        try:
            _continue(url, part, most)
            break
        except _CUT:
            if attempt == _ATTEMPTS - 1:
                raise
            time.sleep(_PAUSE * 2**attempt)
    os.replace(part, target)


def _continue(url: str, part: Path, most: int) -> None:
    """Appends to `part` the bytes that it lacks, or all of them where the server cannot continue.

    Raises DmlrcError, and removes `part`, where the file is larger than `most` bytes or is said to be.
    """
    have = part.stat().st_size if part.exists() else 0
    headers = {"Accept-Encoding": "identity"} | ({"Range": f"bytes={have}-"} if have else {})
    with requests.get(url, headers=headers, stream=True, timeout=_TIMEOUT) as response:
        if response.status_code == requests.codes.requested_range_not_satisfiable:
            if response.headers.get("Content-Range", "") == f"bytes */{have}":
                return  # it was complete already
            part.unlink()
            raise requests.ConnectionError("the file has become shorter on the server", response=None)
        response.raise_for_status()
        if response.status_code != requests.codes.partial_content:
            have = 0
        elif not response.headers.get("Content-Range", "").startswith(f"bytes {have}-"):
            part.unlink()
            raise requests.ConnectionError("the server continues in another place than asked")
        response.raw.enforce_content_length = False  # it would drop the last bytes before a cut; we compare sizes below
        length = response.headers.get("Content-Length", "")
        total = have + int(length) if length.isascii() and length.isdigit() else None
        _refuse_too_large(url, part, total or 0, most)
        with (
            part.open("ab" if have else "wb") as stream,
            tqdm(
                total=total, initial=have, desc=part.stem, unit="B", unit_scale=True, unit_divisor=1024, disable=None
            ) as progress,
        ):
            for chunk in response.iter_content(_CHUNK):
                stream.write(chunk)
                progress.update(len(chunk))
                _refuse_too_large(url, part, stream.tell(), most)
            stream.flush()
            os.fsync(stream.fileno())
    if total is not None and part.stat().st_size < total:
        raise requests.ConnectionError("the connection was cut")


def _refuse_too_large(url: str, part: Path, size: int, most: int) -> None:
    if size > most:
        part.unlink(missing_ok=True)
        raise DmlrcError(
            f"{url} gives {size:,} bytes or more, its data set has less than {most:,}: get the file from elsewhere and "
            f"put it into {part.parent}"
        )


def _unpack_all(name: str, source: Source, folder: Path, files: list[Path]) -> None:
    """Unpacks the archives into the folder and counts what they gave."""
    room = _Room(source)
    for archive, file in zip(source.archives, files, strict=True):
        into = folder / archive.into
        into.mkdir(parents=True, exist_ok=True)
        _unpack(file, into, room)
    place = " and ".join(map(str, files))
    found = home_in(folder, source.markers)
    if found is None:
        raise DmlrcError(f"{place} do not hold data set {name!r}: remove them and try again")
    _counted(name, source, found, place)


class _Room:
    """What the archives of a data set may still give, so that a small file cannot fill the disk."""

    def __init__(self, source: Source):
        self.bytes, self.members = source.most_bytes, 2 * source.images + _OTHER_MEMBERS

    def take(self, file: Path, size: int) -> None:
        """Raises DmlrcError where a member of this size is too much."""
        self.bytes -= size
        self.members -= 1
        if size < 0 or self.bytes < 0 or self.members < 0:
            raise DmlrcError(
                f"{file} holds more bytes or files than its data set can have: remove it and get it from the official "
                "source"
            )


def _unpack(file: Path, into: Path, room: _Room) -> None:
    """Unpacks a zip or tar file, or copies any other file. Raises DmlrcError for a damaged or unsafe archive."""
    try:
        if zipfile.is_zipfile(file):
            with zipfile.ZipFile(file) as archive:
                for member in tqdm(archive.infolist(), desc=f"unpacking {file.name}", unit="file", disable=None):
                    _refuse_unsafe(file, member.filename, stat.S_ISLNK(member.external_attr >> 16))
                    room.take(file, member.file_size)  # zipfile reads no more of it
                    archive.extract(member, into)
        elif tarfile.is_tarfile(file):
            with tarfile.open(file) as archive:
                for member in tqdm(archive, desc=f"unpacking {file.name}", unit="file", disable=None):
                    _refuse_unsafe(file, member.name, not (member.isfile() or member.isdir()))
                    room.take(file, member.size)
                    archive.extract(member, into, filter="data")
        else:
            room.take(file, file.stat().st_size)
            shutil.copy(file, into)
    except DmlrcError:
        raise
    except Exception as error:  # a damaged archive can raise anything
        if isinstance(error, OSError) and not isinstance(error, gzip.BadGzipFile):
            raise  # of the disk
        raise DmlrcError(f"{file} cannot be unpacked ({error}): remove it and get it again") from error


def _refuse_unsafe(file: Path, member: str, special: bool) -> None:
    """Only plain files and folders below the target. special: a link, a device or the like."""
    absolute = PurePosixPath(member).is_absolute() or PureWindowsPath(member).anchor
    if special or absolute or ".." in PurePosixPath(member.replace("\\", "/")).parts:
        raise DmlrcError(
            f"{file} holds the unsafe member {member!r} (a link, or a path out of its folder): "
            "remove the archive and get it from the official source"
        )


@contextmanager
def _explained(what: str) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        raise DmlrcError(f"{what} ({error}): make room, or choose another DMLRC_DATA") from error

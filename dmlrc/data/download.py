"""Sources of a data set: its folder, its archives, or a checked download from its official source.

An archive is downloaded into DMLRC_DATA/downloads/<set>/, where a file that was brought by hand is found too; its MD5
sum is compared where an official one is known (CUB200, SOP, Omniglot, Cars196; not for In-Shop and Grocery Store). It
is unpacked into a temporary folder, the images and classes are counted, and only then the folder gets the set's name: a
set that is there is complete.

A data folder may also hold a set as its archives, in the folder of the set, and may be read-only: the set is then
unpacked into the cache when it is first read. Its archives need not be the official files byte by byte (a set that was
packed anew is as good), so their MD5 sums are not compared; the images and classes are counted.

Only Omniglot, CUB200, SOP and Grocery Store have links. Cars196 (dead links) and In-Shop (a licence agreement) need the
files brought by hand; the error says which and where to put them.
"""

import gzip
import os
import shutil
import sys
import tarfile
import zipfile
from contextlib import suppress
from pathlib import Path

import pooch
import requests

from dmlrc import paths
from dmlrc.data import cache
from dmlrc.data.available import EMBEDDED
from dmlrc.data.listing import Listing, data_root
from dmlrc.data.registry import SOURCES, Archive, DataSource, downloads_folder, home_in, packed, unpacked, way_to_get
from dmlrc.errors import DmlrcError, MissingDataError, UsageError, unknown

_TIMEOUT = 30  # seconds without a byte


def fetch(name: str, root: str | os.PathLike | None = None) -> Path:
    """Make sure that a data set is there and complete, downloading it if need be.

    Parameters
    ----------
    name : of a data set of image files
    root : the folder of all data sets; defaults to $DMLRC_DATA

    Returns
    -------
    Its folder

    Raises
    ------
    MissingDataError
        With the way out, for a dead link or a file that only a person can get.
    DmlrcError
        For a wrong checksum, an unsafe archive or a wrong count.
    """
    source, home = _source(name), data_root(root)
    if unpacked(name, home) or packed(name, home):
        check(name, home)
        return locate(name, home)
    final = home / source.folders[0]
    if final.exists() and any(final.iterdir()):
        raise DmlrcError(f"{final} is there but does not hold data set {name!r}: remove it and try again")
    with paths.explained(f"data set {name!r} cannot be written to {home}", "choose another DMLRC_DATA"):
        brought = set(downloads_folder(name, home).glob("*"))
        files = _archives(name, source, home)
        cache.build_folder(final, lambda folder: _unpack_all(name, source, folder, files))
        for file in files:
            if file not in brought:  # what a person brought is theirs to remove
                file.unlink()
    return locate(name, home)


def check(name: str, root: str | os.PathLike | None = None) -> Listing:
    """Count the images and classes of a data set against those of the complete one, without decoding any image.

    Parameters
    ----------
    name : one of `dmlrc.data.names()`
    root : the folder of the data sets; default DMLRC_DATA

    Returns
    -------
    Listing, with the files, labels and class names

    Raises
    ------
    MissingDataError
        If the set or one of its files is not there.
    DmlrcError
        If a count is wrong.
    """
    source, folder = _source(name), locate(name, data_root(root))
    return _counted(name, source, folder, place=str(folder))


def locate(name: str, root: Path) -> Path:
    """Find the folder of a data set, in the cache if the root holds only its archives, which are then unpacked once.

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
    folder = cache.cached_folder(
        f"{name}-{cache.fingerprint(files, 'unpacked')}", lambda target: _unpack_all(name, source, target, files)
    )
    home = home_in(folder, source.markers)
    if home is None:
        raise DmlrcError(f"{folder} in the cache has become incomplete: remove it, it will be unpacked again")
    return home


def _source(name: str) -> DataSource:
    if name in EMBEDDED:
        raise UsageError(
            f"data set {name!r} is drawn or read from the package: there is nothing to download or to check"
        )
    if name not in SOURCES:
        raise unknown("data set", name, SOURCES)
    return SOURCES[name]


def _counted(name: str, source: DataSource, folder: Path, place: str) -> Listing:
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
    images, classes = len(listing.files), len(listing.class_names)
    if (images, classes) != (source.images, source.classes):
        raise DmlrcError(
            f"data set {name!r} in {place} has {images} images of {classes} classes instead of {source.images} of "
            f"{source.classes}: remove {place}, get the set again"
        )


def _archives(name: str, source: DataSource, root: Path) -> list[Path]:
    """The files of the distribution, all of them there and checked, those with a link downloaded."""
    folder = downloads_folder(name, root)
    if any(archive.url is None and not (folder / archive.filename).exists() for archive in source.archives):
        raise MissingDataError(f"data set {name!r} cannot be downloaded: {way_to_get(name, root)}")
    new = [path for path in (folder, folder.parent, root) if not path.exists()]
    folder.mkdir(parents=True, exist_ok=True)
    try:
        return [_archive(name, archive, folder) for archive in source.archives]
    except BaseException:
        with suppress(OSError):  # another archive may have arrived, which the next call finds
            for path in new:
                path.rmdir()
        raise


def _archive(name: str, archive: Archive, folder: Path) -> Path:
    """File of the distribution; a download that breaks off or has another checksum leaves none."""
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
            downloader=pooch.HTTPDownloader(progressbar=sys.stderr.isatty(), timeout=_TIMEOUT),
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


def _unpack_all(name: str, source: DataSource, folder: Path, files: list[Path]) -> None:
    """Unpack the archives into the folder and count what they gave."""
    for archive, file in zip(source.archives, files, strict=True):
        into = folder / archive.into
        into.mkdir(parents=True, exist_ok=True)
        _unpack(file, into)
    place = " and ".join(map(str, files))
    home = home_in(folder, source.markers)
    if home is None:
        raise DmlrcError(f"{place} do not hold data set {name!r}: remove them and try again")
    _counted(name, source, home, place)


def _unpack(file: Path, into: Path) -> None:
    """Unpack a zip or tar file, or copy any other file. Raises DmlrcError for a damaged or unsafe archive.

    No member gets out of the folder: of zip files parts such as ".." are left out of the names and links are text, of
    tar files members outside, links to the outside and devices are refused. Not by pooch: its `Untar` unpacks all of
    these before Python 3.12, of five kinds of unsafe members three outside of the folder, and a damaged archive ends in
    an error of six lines.
    """
    try:
        if zipfile.is_zipfile(file):
            with zipfile.ZipFile(file) as archive:
                archive.extractall(into)
        elif tarfile.is_tarfile(file):
            with tarfile.open(file) as archive:
                archive.extractall(into, filter="data")
        else:
            shutil.copy(file, into)
    except Exception as error:  # a damaged archive can raise anything
        if isinstance(error, OSError) and not isinstance(error, gzip.BadGzipFile):
            raise  # of the disk
        raise DmlrcError(f"{file} cannot be unpacked ({error}): remove it and get it again") from error

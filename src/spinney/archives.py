"""Archives that somebody else made: what reading one may raise, and how much of it is read."""

import zlib
from bz2 import BZ2Decompressor
from copy import copy
from typing import Final
from zipfile import ZIP_BZIP2, ZIP_DEFLATED, ZIP_STORED, BadZipFile, ZipFile

UNREADABLE: Final = (BadZipFile, OSError, EOFError, KeyError, RuntimeError, zlib.error)
"""What reading an archive raises that somebody made by hand; each way to compress has its own."""


def read_archived(archive: ZipFile, name: str) -> bytes:
    """Return a file of an archive; never make more of it than its entry says it holds.

    `ZipFile.read` decompresses first, and looks at what the entry says afterwards: a thousand bytes
    of bzip2 may hold gigabytes.
    """
    entry = archive.getinfo(name)
    as_it_is = copy(entry)  # so that it is read as it stands
    as_it_is.compress_type, as_it_is.file_size = ZIP_STORED, entry.compress_size
    del as_it_is.CRC
    data = archive.read(as_it_is)
    most = entry.file_size + 1
    if entry.compress_type == ZIP_DEFLATED:
        data = zlib.decompressobj(-zlib.MAX_WBITS).decompress(data, most)
    elif entry.compress_type == ZIP_BZIP2:
        data = BZ2Decompressor().decompress(data, most)
    elif entry.compress_type != ZIP_STORED:
        raise BadZipFile(name)
    if len(data) != entry.file_size or zlib.crc32(data) != entry.CRC:
        raise BadZipFile(name)
    return data

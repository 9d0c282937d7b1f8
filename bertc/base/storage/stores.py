"""Stores that fsspec knows: the package of each, the settings of its client, and writing."""

import re
from pathlib import Path
from typing import Any

from bertc.base.diagnostics import MissingInputError

LIBRARIES = {
    "s3": "s3fs", "gs": "gcsfs", "gcs": "gcsfs", "abfs": "adlfs", "az": "adlfs",
    "hf": "huggingface_hub", "http": "aiohttp", "https": "aiohttp",
}  # fmt: skip
"""The package that reads addresses of each scheme."""
SECONDS_OF_S3 = {"connect_timeout": 5, "read_timeout": 15}  # s3fs, core.py
OPTIONS = {"s3": {"config_kwargs": {"retries": {"max_attempts": 0}, **SECONDS_OF_S3}}}
PIECES = {"s3": {"chunksize": 8 << 20, "max_concurrency": 2}}  # s3fs, core.py
IDLE_SECONDS = 30.0
"""Seconds without headway after which writing is given up; clients wait for a full socket."""
MISWRITTEN = re.compile(rf"({'|'.join(LIBRARIES)})(?!://)(:/*|//+)")
"""The beginning of an address with a colon or a slash too few."""
CREDENTIALS = "credentials come from the environment, as the store's own tools read them"


def open_store(address: str) -> tuple[Any, str]:
    """The file system of a store, and the path in it."""
    import fsspec  # type: ignore[import-untyped]

    scheme = address.split("://")[0]
    try:
        options = OPTIONS.get(scheme, {})
        files, root = fsspec.core.url_to_fs(address, use_listings_cache=False, **options)
    except ImportError:
        package = LIBRARIES.get(scheme, f"the package of fsspec for {scheme}://")
        message = f"{address}: {scheme}:// needs another package"
        raise MissingInputError(message, f"pip install {package}") from None
    except ValueError:
        message = f"{address}: no store has addresses with {scheme}://"
        help = "a folder, or an address such as s3://bucket/folder"
        raise MissingInputError(message, help) from None
    files.retries = 1  # those of s3fs, and of botocore, would multiply the tries of FolderAt
    return files, root


def send(files: Any, content: bytes | Path, path: str) -> None:
    """Put content, or that of a file, at a path of a store, while it makes headway."""
    import asyncio  # slow to import, and needed for stores alone
    from concurrent.futures import wait

    from fsspec.callbacks import Callback  # type: ignore[import-untyped]

    sent, seen, options = Callback(), 0, dict[str, Any]()
    method, arguments = "pipe_file", tuple[Any, ...]((path, content))
    if isinstance(content, Path):
        method, arguments = "put_file", (str(content), path)
        options = {"callback": sent, **PIECES.get(files.protocol[0], {})}
    if not files.async_impl:
        getattr(files, method)(*arguments)
        return
    writing = getattr(files, f"_{method}")(*arguments, **options)
    future = asyncio.run_coroutine_threadsafe(writing, files.loop)
    try:
        while wait([future], IDLE_SECONDS).not_done:
            if sent.value == seen:
                raise TimeoutError(f"nothing was taken in {IDLE_SECONDS:.0f} s")
            seen = sent.value
        future.result()
    finally:
        future.cancel()

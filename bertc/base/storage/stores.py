"""Stores that fsspec knows: the package of each, and the settings of its client."""

from typing import Any

from bertc.base.diagnostics import MissingInputError

LIBRARIES = {
    "s3": "s3fs", "gs": "gcsfs", "gcs": "gcsfs", "abfs": "adlfs", "az": "adlfs",
    "hf": "huggingface_hub", "http": "aiohttp", "https": "aiohttp",
}  # fmt: skip
"""The package that reads addresses of each scheme."""
SECONDS_OF_S3 = {"connect_timeout": 5, "read_timeout": 15}  # s3fs, core.py
OPTIONS = {"s3": {"config_kwargs": {"retries": {"max_attempts": 0}, **SECONDS_OF_S3}}}


def opened(address: str) -> tuple[Any, str]:
    """The file system of a store, and the path in it."""
    import fsspec  # type: ignore[import-untyped]

    scheme = address.split("://")[0]
    try:
        options = OPTIONS.get(scheme, {})
        files, root = fsspec.core.url_to_fs(address, use_listings_cache=False, **options)
    except ImportError:
        package = LIBRARIES.get(scheme, f"the package of fsspec for {scheme}://")
        raise MissingInputError(
            f"{address}: {scheme}:// needs another package", f"pip install {package}"
        ) from None
    except ValueError:
        raise MissingInputError(
            f"{address}: no store has addresses with {scheme}://",
            "a folder, or an address such as s3://bucket/folder",
        ) from None
    files.retries = 1  # those of s3fs, and of botocore, would multiply the tries of FolderAt
    return files, root

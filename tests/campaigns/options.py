"""The options of a campaign, read by what they usually are."""

import argparse
from typing import Any


def read_options(about: str | None, **usual: Any) -> argparse.Namespace:
    """Each has a usual value, or is a type where one has to be given.
    A list has the words of an option that may come again; of a tuple's choices the first is usual.
    """
    how = argparse.RawDescriptionHelpFormatter
    parser = argparse.ArgumentParser(description=about, formatter_class=how)
    for name, value in usual.items():
        flag = f"--{name.replace('_', '-')}"
        match value:
            case bool():
                parser.add_argument(flag, action="store_true")
            case type():
                parser.add_argument(flag, type=value, required=True)
            case list():
                parser.add_argument(flag, action="append", default=value)
            case tuple():
                parser.add_argument(flag, choices=value, default=value[0])
            case _:
                parser.add_argument(flag, type=type(value), default=value)
    return parser.parse_args()

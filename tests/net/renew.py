"""Write goldens anew, on purpose: `python -m tests.net.renew compiled steps`."""

import os
import sys

from tests.net import compiled, goldens
from tests.net.programs import FARM


def renew(names: list[str]) -> None:
    """Write the goldens of these names."""
    found = compiled.compiled()
    for name in names:
        if name == "compiled":
            texts = {each: compiled.texts(resolved) for each, resolved in found.items()}
            goldens.write("compiled.json.xz", texts)
        else:
            at = compiled.FIGURES.index(name)
            goldens.write(f"{name}.json", compiled.figures(found)[at])


if __name__ == "__main__":
    os.chdir(FARM)
    renew(sys.argv[1:])

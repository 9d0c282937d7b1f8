"""``python -m bertc.cli``."""

from bertc.cli import main

main()

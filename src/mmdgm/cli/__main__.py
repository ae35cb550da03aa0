"""python -m mmdgm.cli."""

from mmdgm.cli import main

main()

"""The command line: parse, call, print. Torch is imported only by the commands that need it.

Results go to standard output, progress and messages to standard error. Exit codes: 0 done, 1 failed at work,
2 wrong usage or input, 130 interrupted (with the run resumable).
"""

import sys

from mmdgm.cli import (  # noqa: F401  (each adds its command)
    bench,
    data,
    embed,
    evaluate,
    impute,
    recipes,
    reproduce,
    results,
    sample,
    train,
)
from mmdgm.cli.common import app, say
from mmdgm.errors import InputError, WorkError

__all__ = ["app", "main"]


def main() -> None:
    """Run the program; an expected failure is one sentence on standard error."""
    try:
        app()
    except InputError as error:
        say(f"mmdgm: {error}")
        sys.exit(2)
    except (WorkError, OSError) as error:
        say(f"mmdgm: {error}")
        sys.exit(1)
    except (MemoryError, RuntimeError) as error:
        if not isinstance(error, MemoryError) and "memory" not in str(error):
            raise
        say(f"mmdgm: there is not enough memory for this ({str(error).splitlines()[0]}); ask for less")
        sys.exit(1)
    except KeyboardInterrupt:
        say("mmdgm: interrupted")
        sys.exit(130)

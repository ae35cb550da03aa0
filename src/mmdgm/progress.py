"""Progress on standard error: a live bar on a terminal, a plain line now and then elsewhere."""

import sys
import time
from collections.abc import Callable
from types import TracebackType
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from mmdgm.training import Progress

_PLAIN_SECONDS = 10.0
_LIVE_SECONDS = 0.1


class ProgressBar:
    """Shows what is done, what came of it so far, and the time left."""

    def __init__(self, title: str, quiet: bool = False) -> None:
        from rich.console import Console
        from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn

        console = Console(stderr=True)
        self._live = console.is_terminal and not quiet
        self._quiet, self._title, self._shown = quiet, title, 0.0
        self._first: tuple[float, float] | None = None
        columns = (TextColumn(title), BarColumn(), TextColumn("{task.description}"), TimeElapsedColumn())
        self._bar = Progress(*columns, console=console, disable=not self._live)
        self._task = self._bar.add_task("", total=1.0)

    def __enter__(self) -> "ProgressBar":
        self._bar.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._bar.stop()

    def __call__(self, progress: "Progress") -> None:
        """Show where a training run is: epoch, terms of the objective, validation figures."""
        self._show((progress.epoch + progress.step / progress.steps) / progress.epochs, lambda: _describe(progress))

    def rows(self, done: int, of: int) -> None:
        """Show how many rows are done."""
        self._show(done / of, lambda: f"{done:,} of {of:,} rows")

    def _show(self, done: float, describe: Callable[[], str]) -> None:
        """One line or one move of the bar, if the last time was long enough ago or the work is done."""
        now = time.monotonic()
        if self._quiet or (now - self._shown < (_LIVE_SECONDS if self._live else _PLAIN_SECONDS) and done < 1):
            return
        self._shown = now
        text = f"{describe()}  {self._time_left(done, now)} left"
        if self._live:
            self._bar.update(self._task, completed=done, description=text)
        else:
            print(f"{self._title} {100 * done:3.0f} % {text}", file=sys.stderr, flush=True)

    def _time_left(self, done: float, now: float) -> str:
        if self._first is None or done <= self._first[0]:
            self._first = self._first or (done, now)
            return "--:--"
        share, began = self._first
        seconds = round((now - began) * (1 - done) / (done - share))
        return f"{seconds // 60}:{seconds % 60:02d}"


def _describe(progress: "Progress") -> str:
    terms = progress.terms
    text = f"epoch {progress.epoch + 1}/{progress.epochs}  D {terms.distortion:.1f}  R {terms.rate:.1f}"
    text += f"  H {terms.hinge:.3f}"
    if "valid_error_percent" in progress.validation:
        text += f"  error {progress.validation['valid_error_percent']:.2f} %"
    if "valid_bound_nats" in progress.validation:
        text += f"  bound {progress.validation['valid_bound_nats']:.2f}"
    return text

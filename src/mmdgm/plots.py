"""Pictures: grids of images and learning curves, as bytes of a PNG, or of an SVG. No display is needed."""

import io
import math
import textwrap
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
from numpy.typing import NDArray

if TYPE_CHECKING:
    from matplotlib.figure import Figure

_INCHES = 0.55
Kind = Literal["png", "svg"]


def grid(images: NDArray[np.float32], title: str, columns: int | None = None) -> bytes:
    """Images (N, H, W) or (N, H, W, 3) with values in [0, 1], row by row, with a caption."""
    columns = columns or math.ceil(math.sqrt(len(images)))
    rows = math.ceil(len(images) / columns)
    figure = new_figure(max(3.0, columns * _INCHES), max(1.5, rows * _INCHES) + 0.4)
    axes = figure.add_subplot()
    axes.imshow(sheet(images, columns).clip(0, 1), cmap="gray", vmin=0, vmax=1, interpolation="nearest")
    axes.set_title(_wrapped(title, 15 * columns * _INCHES), fontsize=9)
    axes.axis("off")
    return saved(figure)


def _wrapped(title: str, characters: float) -> str:
    return "\n".join(textwrap.wrap(title, max(40, int(characters))))


def sheet(images: NDArray[np.float32], columns: int) -> NDArray[np.float32]:
    """Images in rows of so many, with white lines between them."""
    n, height, width = images.shape[:3]
    rows = math.ceil(n / columns)
    channels = images.shape[3:] if images.shape[3:] != (1,) else ()
    made = np.ones((rows * (height + 1) + 1, columns * (width + 1) + 1, *channels), dtype=np.float32)
    for i, image in enumerate(images.reshape(n, height, width, *channels)):
        row, column = divmod(i, columns)
        top, left = row * (height + 1) + 1, column * (width + 1) + 1
        made[top : top + height, left : left + width] = image
    return made


def filters(weights: NDArray[np.float32], title: str) -> bytes:
    """First-layer filters (N, channels, k, k), each stretched to its own range; three channels are shown in colour."""
    images = weights.transpose(0, 2, 3, 1)
    if images.shape[3] != 3:
        images = images.mean(axis=3, keepdims=True)
    low, high = (bound(images, axis=(1, 2, 3), keepdims=True) for bound in (np.min, np.max))
    return grid((images - low) / np.maximum(high - low, 1e-12), title)


def shown(images: NDArray[np.float32], transform: str) -> tuple[NDArray[np.float32], str]:
    """Images as they can be drawn, and words for the caption.

    What was drawn from the prior of a contrast-normalised model never had a contrast to give back: it is shown
    around a middle grey.
    """
    if transform == "none":
        return images, ""
    return 0.5 + images / np.float32(6 if transform == "global" else 8), " (contrast normalised, shown around grey)"


def pairs(originals: NDArray[np.float32], copies: NDArray[np.float32], title: str) -> bytes:
    """Originals above their reconstructions, ten side by side."""
    columns = min(10, len(originals))
    usable = len(originals) // columns * columns
    strips = []
    for start in range(0, usable, columns):
        strips += [originals[start : start + columns], copies[start : start + columns]]
    return grid(np.concatenate(strips), title, columns)


def film_strip(columns: Sequence[NDArray[np.float32]], labels: Sequence[str], title: str, kind: Kind = "png") -> bytes:
    """The same images side by side at different times, one row an image, one labelled column a time."""
    figure = new_figure(max(3.0, len(columns) * 0.7), max(1.5, len(columns[0]) * 0.7) + 0.6)
    axes = figure.subplots(1, len(columns))
    for ax, images, label in zip(axes, columns, labels, strict=True):
        ax.imshow(sheet(images, 1).clip(0, 1), cmap="gray", vmin=0, vmax=1, interpolation="nearest")
        ax.set_title(label, fontsize=8)
        ax.axis("off")
    figure.suptitle(title, fontsize=9)
    return saved(figure, kind)


def animation(frames: Sequence[NDArray[np.float32]], scale: int = 3, milliseconds: int = 120) -> bytes:
    """The images of every frame side by side, as an endless GIF; the last frame stays for two seconds."""
    from PIL import Image

    pictures = []
    for images in frames:
        whole = (sheet(images, len(images)).clip(0, 1) * 255).round().astype(np.uint8)
        pictures.append(Image.fromarray(whole.repeat(scale, axis=0).repeat(scale, axis=1)))
    buffer = io.BytesIO()
    times = [milliseconds] * (len(pictures) - 1) + [2000]
    pictures[0].save(buffer, format="GIF", save_all=True, append_images=pictures[1:], duration=times, loop=0)
    return buffer.getvalue()


def histograms(
    columns: Sequence[Any], truth: NDArray[np.float32], filled: NDArray[np.float32], mask: NDArray[np.bool_], title: str
) -> bytes:
    """For every column of a table, what was hidden and what was filled in."""
    across = min(4, len(columns))
    down = math.ceil(len(columns) / across)
    figure = new_figure(3 * across, 2.2 * down + 0.4)
    for i, column in enumerate(columns):
        axes = figure.add_subplot(down, across, i + 1)
        hidden = truth[mask[:, i], i]
        hidden, guess = hidden[~np.isnan(hidden)], filled[mask[:, i], i]
        levels = len(column.levels) if column.kind == "categorical" else 2
        bins = np.arange(levels + 1) - 0.5
        if column.kind == "real":
            bins = np.histogram_bin_edges(np.concatenate([hidden, guess]), 20)
        axes.hist([hidden, guess], bins=list(bins), label=["hidden", "filled in"])
        axes.set_title(column.name, fontsize=8)
        axes.tick_params(labelsize=7)
        if not i:
            axes.legend(fontsize=7)
    figure.suptitle(title, fontsize=9)
    return saved(figure)


def learning_curves(metrics: Sequence[dict[str, Any]], title: str) -> bytes:
    """The terms of the objective, and the validation error and bound, over the epochs."""
    figure = new_figure(9, 3.2)
    left, right = figure.subplots(1, 2)
    epochs = [line["epoch"] for line in metrics]
    for term in ("distortion", "rate", "hinge"):
        left.plot(epochs, [line[term] for line in metrics], label=term)
    left.set(xlabel="epoch", ylabel="nats per example (training)", yscale="symlog")
    left.legend(fontsize=8)
    looked = [line for line in metrics if "valid_bound_nats" in line or "valid_error_percent" in line]
    _curve(right, looked, "valid_bound_nats", "bound, nats (validation)", "tab:blue")
    _curve(right.twinx(), looked, "valid_error_percent", "error, % (validation)", "tab:red")
    right.set(xlabel="epoch")
    figure.suptitle(title, fontsize=9)
    return saved(figure)


def _curve(axes: Any, lines: Sequence[dict[str, Any]], key: str, label: str, colour: str) -> None:
    points = [(line["epoch"], line[key]) for line in lines if key in line]
    if not points:
        axes.set_yticks([])
        return
    axes.plot(*zip(*points, strict=True), color=colour)
    axes.set_ylabel(label, color=colour)
    worst_shown = np.percentile([value for _, value in points], 90 if "error" in key else 10)
    axes.set_ylim(**({"top": 2 * worst_shown, "bottom": 0} if "error" in key else {"bottom": 1.1 * worst_shown}))


def new_figure(width: float, height: float) -> "Figure":
    """An empty figure of so many inches."""
    from matplotlib.figure import Figure

    return Figure(figsize=(width, height), layout="constrained")


def saved(figure: "Figure", kind: Kind = "png") -> bytes:
    """The bytes of a file; the same figure gives the same bytes."""
    from matplotlib import rc_context

    buffer = io.BytesIO()
    with rc_context({"svg.hashsalt": "mmdgm"}):
        figure.savefig(buffer, format=kind, dpi=110, metadata={"Date": None} if kind == "svg" else None)
    return buffer.getvalue()

"""The figures of the experiments: samples side by side, maps of features, our figures against the paper's."""

from collections.abc import Mapping, Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from mmdgm.plots import Kind, new_figure, saved, sheet


class Series(NamedTuple):
    """Figures along an axis: one mean for each place (none where nothing was measured), and its spread."""

    name: str
    means: Sequence[float | None]
    spreads: Sequence[float] | None = None


def beside(places: Sequence[str], panels: Mapping[str, Sequence[Series]], title: str, kind: Kind = "png") -> bytes:
    """One panel for each kind of figure: the paper's, hollow, and ours, filled, at every place."""
    figure = new_figure(max(6.0, 0.6 * len(places) + 2.5) * len(panels), 3.6)
    for axes, (name, series) in zip(
        np.atleast_1d(np.asarray(figure.subplots(1, len(panels)))), panels.items(), strict=True
    ):
        for one in series:
            known = [i for i, mean in enumerate(one.means) if mean is not None]
            spreads = None if one.spreads is None else [one.spreads[i] for i in known]
            paper = one.name.startswith("the paper")
            axes.errorbar(
                known,
                [mean for mean in one.means if mean is not None],
                yerr=spreads,
                fmt="o--" if paper else "o-",
                fillstyle="none" if paper else "full",
                linewidth=0.8,
                capsize=2,
                label=one.name,
            )
        axes.set_xticks(range(len(places)), places, rotation=30, ha="right", fontsize=7)
        axes.set_ylabel(name, fontsize=8)
        axes.tick_params(axis="y", labelsize=7)
        axes.legend(fontsize=7)
    figure.suptitle(title, fontsize=9)
    return saved(figure, kind)


def side_by_side(
    grids: Sequence[NDArray[np.float32]], titles: Sequence[str], caption: str, kind: Kind = "png"
) -> bytes:
    """Grids of images next to one another, each with a title."""
    figure = new_figure(3.4 * len(grids), 3.9)
    for axes, images, title in zip(np.atleast_1d(figure.subplots(1, len(grids))), grids, titles, strict=True):
        columns = int(np.ceil(np.sqrt(len(images))))
        axes.imshow(sheet(images, columns).clip(0, 1), cmap="gray", vmin=0, vmax=1, interpolation="nearest")
        axes.set_title(title, fontsize=9)
        axes.axis("off")
    figure.suptitle(caption, fontsize=9)
    return saved(figure, kind)


def maps(
    planes: Sequence[NDArray[np.float32]], y: NDArray[np.int64], titles: Sequence[str], kind: Kind = "png"
) -> bytes:
    """The same points in several planes, coloured by class."""
    figure = new_figure(4.2 * len(planes), 4.4)
    for axes, plane, title in zip(np.atleast_1d(figure.subplots(1, len(planes))), planes, titles, strict=True):
        axes.scatter(plane[:, 0], plane[:, 1], c=y, cmap="tab10", vmin=0, vmax=9, s=3, linewidths=0)
        axes.set_title(title, fontsize=9)
        axes.set_xticks([])
        axes.set_yticks([])
    return saved(figure, kind)

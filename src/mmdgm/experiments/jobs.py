"""What the paper's tables and figures need: which models, trained on what, and looked at how.

A job is one model with a name of its own in the results. The paper's two-stage baselines are jobs that read what
another job's model says of its rows.
"""

from dataclasses import dataclass, replace
from typing import Any, Literal

from mmdgm.experiments.paper import HOLE_TABLES, TABLES, HoleTable, Table
from mmdgm.recipes import Recipe, changed, recipe_named
from mmdgm.transitions import Method

What = Literal["features", "latents"]

_IMPORTANCE_SAMPLES = {True: 10, False: 100}
"""K of the likelihood, with and without convolution, where a sample costs a hundred times as much."""


@dataclass(frozen=True)
class Job:
    """One model: a recipe, and what was set; `reads` names another job and what of it this one is trained on.

    `starts_from` names the job whose recognition network this one starts with. With holes, `filled_by` is the method
    if not the model's own, and scikit-learn's imputers fill the first `compared` rows, too.
    """

    name: str
    base: str
    settings: tuple[str, ...] = ()
    reads: tuple[str, What] | None = None
    starts_from: str | None = None
    compared: int = 0
    filled_by: Method | None = None

    @property
    def recipe(self) -> Recipe:
        """The recipe, under the job's name."""
        named = () if self.name == self.base else (f"name={self.name}",)
        return changed(recipe_named(self.base), [*self.settings, *named])

    @property
    def needs(self) -> tuple[str, ...]:
        """The jobs that come first."""
        return tuple(name for name in (self.reads and self.reads[0], self.starts_from) if name)

    @property
    def data(self) -> str:
        """The data that it starts from, itself or through the job that it reads."""
        return JOBS[self.reads[0]].data if self.reads else self.recipe.data


def _plain(name: str) -> Job:
    return Job(name, name)


_PEGASOS = ("epochs=40",)

JOBS = {
    job.name: job
    for job in (
        *map(
            _plain,
            (
                "va-mnist",
                "mmva-mnist-paper",
                "mmva-mnist",
                "mmva-mnist-best",
                "mmva-mnist-augmented",
                "class-condition-va-mnist",
                "cva-mnist",
                "cmmva-mnist",
                "cmmva-mnist-best",
                "cnn-mnist",
                "cnn-mnist-holes",
                "cva-svhn",
                "cmmva-svhn",
                "cmmva-svhn-best",
                "cnn-svhn",
            ),
        ),
        *(Job(f"cmmva-mnist-C-{C}", "cmmva-mnist", (f"C={C}",)) for C in (1, 10, 100, 10000)),
        Job("cmmva-mnist-holes", "cmmva-mnist-holes", compared=200, filled_by="importance"),
        Job("va-pegasos-mnist", "pegasos", _PEGASOS, reads=("va-mnist", "features")),
        Job("cva-pegasos-mnist", "pegasos", (*_PEGASOS, "split=whole"), reads=("cva-mnist", "features")),
        Job("cva-pegasos-svhn", "pegasos", (*_PEGASOS, "split=whole"), reads=("cva-svhn", "features")),
        Job("va-class-condition-mnist", "class-condition-va", reads=("va-mnist", "latents")),
        Job("cmmva-svhn-from-cnn", "cmmva-svhn", starts_from="cnn-svhn"),
    )
}


@dataclass(frozen=True)
class Target:
    """One table or figure: its models, and the holes with which they are looked at."""

    name: str
    about: str
    jobs: tuple[str, ...]
    table: Table | HoleTable | None = None

    @property
    def patterns(self) -> tuple[str, ...]:
        """Holes, if the table is about them."""
        return tuple(self.table.rows) if isinstance(self.table, HoleTable) else ()


def _of_a_table(table: Table) -> Target:
    names = dict.fromkeys(name for line in table.lines for name in line.recipes)
    return Target(f"table{table.number}", table.title, tuple(names), table)


_GENERATIVE = ("va-mnist", "mmva-mnist-paper", "cva-mnist", "cmmva-mnist")

TARGETS = {
    target.name: target
    for target in (
        *map(_of_a_table, TABLES),
        *(Target(f"table{table.number}", table.title, table.recipes, table) for table in HOLE_TABLES),
        Target("samples-mnist", "samples of VA, MMVA, CVA and CMMVA, MNIST", _GENERATIVE),
        Target("samples-svhn", "samples of CVA and CMMVA, SVHN", ("cva-svhn", "cmmva-svhn")),
        Target("tsne", "t-SNE of what the classifiers read, MNIST", ("va-mnist", "mmva-mnist-paper")),
        Target("imputation-mnist", "filling in, step by step, MNIST", ("cmmva-mnist",)),
        Target("imputation-svhn", "filling in, step by step, SVHN", ("cmmva-svhn",)),
    )
}


def in_order(names: tuple[str, ...]) -> list[Job]:
    """The jobs, each after those that it needs."""
    found: dict[str, Job] = {}
    for name in names:
        for job in (*in_order(JOBS[name].needs), JOBS[name]):
            found.setdefault(job.name, job)
    return list(found.values())


@dataclass(frozen=True)
class Size:
    """How large the experiments are: whole, or (`--quick`) a few rows and one epoch, to see that all of it works."""

    rows: int | None = None
    epochs: int | None = None
    importance_samples: int | None = None
    steps: int | None = None
    points: int = 2000

    def recipe(self, job: Job) -> Recipe:
        """The job's recipe at this size."""
        recipe = job.recipe
        if self.epochs is None:
            return recipe
        return replace(recipe, epochs=self.epochs, batch_size=min(50, recipe.batch_size))

    def imputer(self, job: Job) -> dict[str, Any]:
        """Settings of the `Imputer`."""
        how: dict[str, Any] = {} if job.filled_by is None else {"method": job.filled_by}
        return how if self.steps is None else {**how, "steps": self.steps}

    def likelihood(self, recipe: Recipe) -> int:
        """K."""
        return self.importance_samples or _IMPORTANCE_SAMPLES[bool(recipe.convolutions)]


WHOLE, QUICK = Size(), Size(rows=300, epochs=1, importance_samples=2, steps=5, points=100)

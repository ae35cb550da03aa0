"""mmdgm recipes."""

import dataclasses
from typing import Annotated

import typer

from mmdgm.cli.common import Json, app, print_json


@app.command()
def recipes(
    name: Annotated[str | None, typer.Argument(help="Show every field of this recipe.")] = None,
    as_json: Json = False,
) -> None:
    """The recipes, or all fields of one."""
    from mmdgm.recipes import RECIPES, Recipe, recipe_named

    if name is None:
        listed = [{"name": r.name, "summary": r.summary} for r in (make() for make in RECIPES.values())]
        if as_json:
            print_json({"recipes": listed})
            return
        for row in listed:
            print(f"{row['name']:20} {row['summary']}")
        return
    recipe = recipe_named(name)
    if as_json:
        print_json(recipe.to_json())
        return
    for field in dataclasses.fields(Recipe):
        value = getattr(recipe, field.name)
        shown = ",".join(map(str, value)) if isinstance(value, tuple) else value
        print(f"{field.name:20} {shown!s:22} {field.metadata['meaning']}")

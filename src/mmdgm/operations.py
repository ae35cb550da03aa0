"""How much work a model is: the multiplications and additions of its layers, counted from one example."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn

from mmdgm.convolution import Layer
from mmdgm.model import MaxMarginDGM


@dataclass(frozen=True)
class CountedLayer:
    """One layer, the shape of its input for one example, and its multiplications and additions.

    `operations` are those that are done, `nominal` those of the network as the paper writes it, where an unpooled
    map is convolved with its zeros. Forward, and two backward; the first layer has no gradient of its input.
    """

    name: str
    module: nn.Module
    shape: tuple[int, ...]
    operations: float
    nominal: float
    first: bool


def count_layers(model: MaxMarginDGM) -> list[CountedLayer]:
    """Every linear and convolutional layer, in the order in which they are used."""
    counted: list[CountedLayer] = []

    def note(name: str) -> Callable[[nn.Module, Any, Any], None]:
        def hook(module: nn.Module, inputs: tuple[Tensor, ...], output: Tensor) -> None:
            done, nominal = _products(module, inputs[0], output)
            first = not counted
            factor = 2.0 * (2 if first else 3)
            counted.append(
                CountedLayer(name, module, tuple(inputs[0].shape[1:]), factor * done, factor * nominal, first)
            )

        return hook

    handles = [
        part.register_forward_hook(note(name))
        for name, part in model.named_modules()
        if isinstance(part, Layer | nn.Linear)
    ]
    device = next(model.parameters()).device
    try:
        with torch.no_grad():
            model.eval()
            x = torch.zeros(1, model.schema.width, device=device)
            label = model.label(torch.zeros(1, dtype=torch.long, device=device))
            recognised = model.recognition(x, torch.ones_like(x, dtype=torch.bool), label=label)
            model.classifier(model.features(recognised))
            if model.generative is not None:
                model.generative(torch.zeros(1, 1, model.recipe.latent_size, device=device), label)
    finally:
        model.train()
        for handle in handles:
            handle.remove()
    return counted


def _products(module: nn.Module, x: Tensor, output: Tensor) -> tuple[float, float]:
    """Multiplications with a weight, done and nominal, of one example's forward pass."""
    if isinstance(module, nn.Linear):
        return float(module.weight.numel()), float(module.weight.numel())
    assert isinstance(module, Layer)
    places = output.shape[2] * output.shape[3] * (4 if module.layer.pool else 1)
    nominal = float(module.weight.numel() * places)
    return (float(module.weight.numel() * x.shape[2] * x.shape[3]) if module.layer.up else nominal), nominal

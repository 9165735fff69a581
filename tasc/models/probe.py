"""What a forward and a training step cost here, for a model that need not exist yet.

Stand-ins of one and of two layers with random weights are timed: the difference is a layer, and
what is left are the embedding and the LM head. All layers of a model do the same work.
"""

import time
from collections.abc import Callable
from copy import deepcopy
from pathlib import Path
from typing import TypeAlias

import torch
from transformers import AutoConfig, AutoModelForCausalLM, PreTrainedConfig

from tasc.models.folder import model_config
from tasc.models.folder.files import tensor_shapes, weight_files

Shape: TypeAlias = PreTrainedConfig
_MOST_PARAMETERS = 10**9  # of both stand-ins' larger one: 4 GB in float32, and as many of gradients
_ROUNDS = 3
_LONG = 1.0  # seconds after which a round is the last


def shape_of(folder: Path) -> Shape:
    """Return the configuration of the model in ``folder``, whose weights bear its numbers out.

    Raises InputError or IntegrityError for what is no model.
    """
    shapes = tensor_shapes(weight_files(folder), f"model {folder}")
    model_config.check_numbers(folder, model_config.read_config(folder), shapes)
    held: Shape = AutoConfig.from_pretrained(folder, local_files_only=True, trust_remote_code=False)
    return held


class Probe:
    """Seconds of forwards and training steps of a model of the shape ``config``."""

    def __init__(self, config: Shape, device: str = "cpu") -> None:
        """Build the stand-ins on ``device``, in float32; ValueError where they take too much."""
        with torch.device("meta"):
            larger = AutoModelForCausalLM.from_config(_of_layers(config, 2))
        if (count := larger.num_parameters()) > _MOST_PARAMETERS:
            raise ValueError(f"two layers have {count:,} parameters")
        self.layers = int(config.num_hidden_layers)
        self.vocabulary = int(config.vocab_size)
        self.device = torch.device(device)
        with torch.random.fork_rng():
            self.models = [
                AutoModelForCausalLM.from_config(_of_layers(config, count)).to(device).eval()
                for count in (1, 2)
            ]

    def forward(self, rows: int, length: int) -> float:
        """Return the seconds of a forward over (rows, length) tokens, with the last one's logits.

        One token a row is a step of decoding, but for the attention to what it has in its cache.
        """
        return self._whole(lambda model: _forward(model, self._tokens(rows, length)))

    def training_step(
        self, rows: int, length: int, targets: int, *, frozen: bool, bfloat16: bool
    ) -> float:
        """Return the seconds of a forward and backward with logits of the last ``targets``.

        ``frozen`` layers get no gradients of their own, as below adapters.
        """
        for model in self.models:
            model.requires_grad_(not frozen)
            model.get_input_embeddings().requires_grad_()

        def step(model: torch.nn.Module) -> None:
            with torch.autocast(self.device.type, torch.bfloat16, enabled=bfloat16):
                tokens = self._tokens(rows, length)
                logits = model(tokens, use_cache=False, logits_to_keep=targets).logits
            logits.float().logsumexp(-1).sum().backward()
            model.zero_grad()

        return self._whole(step)

    def _tokens(self, rows: int, length: int) -> torch.Tensor:
        spread = torch.arange(1, rows * length + 1, device=self.device) * 7919 % self.vocabulary
        return spread.view(rows, length)

    def _whole(self, run: Callable[[torch.nn.Module], object]) -> float:
        """Return the seconds of ``run`` with all layers."""
        one, two = (_seconds(run, model) for model in self.models)
        return one + (self.layers - 1) * max(0.0, two - one)


def _of_layers(config: Shape, count: int) -> Shape:
    changed = deepcopy(config)
    changed.num_hidden_layers = count
    if getattr(changed, "layer_types", None):
        changed.layer_types = changed.layer_types[:count]
    return changed


@torch.inference_mode()
def _forward(model: torch.nn.Module, tokens: torch.Tensor) -> None:
    model(tokens, use_cache=False, logits_to_keep=1)


def _seconds(run: Callable[[torch.nn.Module], object], model: torch.nn.Module) -> float:
    """Return the least seconds of some rounds: other work only ever adds.

    The first is slower than the others, so it counts only where it alone takes long enough.
    """
    times: list[float] = []
    while len(times) <= _ROUNDS and sum(times) < _LONG:
        begin = time.perf_counter()
        run(model)
        if torch.cuda.is_available():
            torch.cuda.synchronize()
        times.append(time.perf_counter() - begin)
    return min(times[1:] or times)

"""What a forward and a training step cost here, for a model that need not exist yet.

Stand-ins of one and of two layers with random weights are timed: the difference is a layer, and
what is left are the embedding and the LM head. All layers of a model do the same work.
"""

import time
from collections.abc import Callable
from copy import deepcopy

import torch
from transformers import AutoModelForCausalLM, PreTrainedConfig

_ROUNDS = 3


class Probe:
    """Seconds of forwards and training steps of a model of the shape ``config``."""

    def __init__(self, config: PreTrainedConfig, device: str = "cpu") -> None:
        """Build the stand-ins on ``device``, in float32."""
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
            for name, parameter in model.named_parameters():
                parameter.requires_grad_(not frozen or "layers." not in name)

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


def _of_layers(config: PreTrainedConfig, count: int) -> PreTrainedConfig:
    changed = deepcopy(config)
    changed.num_hidden_layers = count
    if getattr(changed, "layer_types", None):
        changed.layer_types = changed.layer_types[:count]
    return changed


@torch.inference_mode()
def _forward(model: torch.nn.Module, tokens: torch.Tensor) -> None:
    model(tokens, use_cache=False, logits_to_keep=1)


def _seconds(run: Callable[[torch.nn.Module], object], model: torch.nn.Module) -> float:
    """Return the least seconds of some rounds after a first: other work only ever adds."""
    times = []
    for _ in range(1 + _ROUNDS):
        begin = time.perf_counter()
        run(model)
        if torch.cuda.is_available():
            torch.cuda.synchronize()
        times.append(time.perf_counter() - begin)
    return min(times[1:])

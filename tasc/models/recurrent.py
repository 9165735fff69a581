"""Recurrent layers: find them in any model, and run them token by token.

Only the recurrence runs token by token, as it does without drafts. The projections before and after
it, which read all weights of the layer, run once for all tokens.
"""

from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from typing import Any

import torch
from torch import nn

Forward = Callable[..., Any]
Attribute = tuple[nn.Module, str]  # a module and the name of an attribute


@dataclass(frozen=True, eq=False)
class Recurrent:
    """A module that updates a recurrent state.

    ``first`` are the linear layers that read the module's own input, and ``last`` is the one whose
    output the module returns, if any.
    """

    module: nn.Module
    first: tuple[nn.Linear, ...] = ()
    last: nn.Linear | None = None

    @contextmanager
    def token_by_token(self, count: int, after_token: Callable[[], None]) -> Iterator[None]:
        """Run the module on one of ``count`` tokens at a time; call ``after_token`` after each.

        Tensors of ``count`` entries in dimension 1 are split. Further values that the module
        returns are from the first token.
        """
        own = self.module.forward

        def forward(*args: Any, **kwargs: Any) -> Any:  # noqa: ANN401 - as the module's
            hidden: torch.Tensor = args[0] if args else kwargs["hidden_states"]
            outputs = []
            with ExitStack() as stack:
                now = [0]
                for linear in self.first:
                    stack.enter_context(_replaced(linear, _slices(linear(hidden), now)))
                if self.last is not None:
                    stack.enter_context(_replaced(self.last, lambda x: x))
                for now[0] in range(count):
                    given = _at(args, now[0], count), _at(kwargs, now[0], count)
                    outputs.append(own(*given[0], **given[1]))
                    after_token()
            rows = torch.cat([o[0] if isinstance(o, tuple) else o for o in outputs], dim=1)
            if self.last is not None:
                rows = self.last(rows)
            return (rows, *outputs[0][1:]) if isinstance(outputs[0], tuple) else rows

        with _replaced(self.module, forward):
            yield


def _slices(whole: torch.Tensor, now: list[int]) -> Forward:
    return lambda _: whole[:, now[0] : now[0] + 1]


def _at(given: Any, token: int, count: int) -> Any:  # noqa: ANN401 - any argument of a module
    """Return the part of an argument that belongs to one of ``count`` tokens."""
    if isinstance(given, torch.Tensor) and given.dim() > 1 and given.shape[1] == count:
        return given[:, token : token + 1]
    if type(given) is tuple:
        return tuple(_at(one, token, count) for one in given)
    if type(given) is dict:
        return {name: _at(one, token, count) for name, one in given.items()}
    return given


@contextmanager
def _replaced(module: nn.Module, forward: Forward) -> Iterator[None]:
    before = module.__dict__.get("forward")
    module.__dict__["forward"] = forward
    try:
        yield
    finally:
        if before is None:
            del module.__dict__["forward"]
        else:
            module.__dict__["forward"] = before


def _tensor_attributes(model: nn.Module) -> dict[Attribute, torch.Tensor]:
    """Return the attributes of modules that are tensors and no parameters or buffers."""
    return {
        (module, name): value
        for module in model.modules()
        for name, value in vars(module).items()
        if isinstance(value, torch.Tensor)
    }


class HeldState:
    """The states of one sequence that a model keeps in attributes of its modules."""

    def __init__(self, attributes: Sequence[Attribute]) -> None:
        self.attributes = attributes
        self.values: list[torch.Tensor | None] = [None] * len(attributes)
        self.marks: list[list[torch.Tensor | None]] = []

    @contextmanager
    def loaded(self) -> Iterator[None]:
        """Give the model these states in the block; read them back at its end."""
        self._write(self.values)
        yield
        self.values = self._read()
        self._write([None] * len(self.attributes))

    def mark(self) -> None:
        self.marks.append([None if x is None else x.clone() for x in self._read()])

    def keep(self, count: int, read: int) -> None:
        """Take the states back to the first ``count`` of the ``read`` tokens of a forward."""
        if self.marks and count < read:
            self.values = self.marks[count - 1]
        self.marks.clear()

    def _read(self) -> list[torch.Tensor | None]:
        return [getattr(module, name) for module, name in self.attributes]

    def _write(self, values: Sequence[torch.Tensor | None]) -> None:
        for (module, name), value in zip(self.attributes, values, strict=True):
            setattr(module, name, value)


class Finder:
    """Finds the modules that update states, while the model runs in the block."""

    def __init__(self, model: nn.Module) -> None:
        self.model, self.running = model, list[tuple[nn.Module, torch.Tensor | None]]()
        self.linears: list[tuple[nn.Linear, Any, Any]] = []  # with their inputs and outputs
        self.outputs: dict[nn.Module, tuple[Any, Any]] = {}  # inputs and outputs of modules
        self.found: dict[int, nn.Module] = {}
        self.before = _tensor_attributes(model)
        self.hooks = ExitStack()

    def __enter__(self) -> "Finder":
        for module in self.model.modules():
            enter = module.register_forward_pre_hook(self._enter, with_kwargs=True)
            self.hooks.enter_context(enter)
            self.hooks.enter_context(module.register_forward_hook(self._leave))
        return self

    def __exit__(self, *_: object) -> None:
        self.hooks.close()

    def _enter(self, module: nn.Module, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
        self.running.append((module, args[0] if args else kwargs.get("hidden_states")))

    def _leave(self, module: nn.Module, _args: object, output: object) -> None:
        _, given = self.running.pop()
        if isinstance(module, nn.Linear):
            self.linears.append((module, given, output))
        self.outputs[module] = given, output[0] if isinstance(output, tuple) else output

    def updated(self, layer: int) -> None:
        """Record that the module that runs now updates the state of ``layer``."""
        self.found[layer] = self.running[-1][0]

    def attributes(self) -> list[list[Attribute]]:
        """Return the attributes that hold states, by the outermost module that has some.

        Some models keep the states of their only sequence in modules. Takes the trial's out.
        """
        now = _tensor_attributes(self.model).items()
        new = [attribute for attribute, value in now if value is not self.before.get(attribute)]
        outer: dict[nn.Module, list[Attribute]] = {}
        for module, name in new:  # a module comes before those inside it
            home = next((o for o in outer if module in set(o.modules())), module)
            outer.setdefault(home, []).append((module, name))
            setattr(module, name, self.before.get((module, name)))
        self.found.update((~i, home) for i, home in enumerate(outer))
        return list(outer.values())

    def recurrent(self) -> dict[int, Recurrent]:
        return {layer: self._recurrent(module) for layer, module in self.found.items()}

    def _recurrent(self, module: nn.Module) -> Recurrent:
        given, returned = self.outputs[module]
        own = set(module.modules())
        first = [linear for linear, x, _ in self.linears if linear in own and x is given]
        last = [linear for linear, _, y in self.linears if linear in own and y is returned]
        return Recurrent(module, tuple(first), last[0] if last else None)

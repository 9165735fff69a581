"""The prompt of a recipe: candidates for a task's columns and model, and the choice among them."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from tasc.data.chat import Turn
from tasc.data.source import Source
from tasc.errors import InputError
from tasc.report.record import Record
from tasc.tokenizer.chat import ChatTemplate
from tasc.tokenizer.files import CONFIGS
from tasc.tokenizer.loaded import LoadedTokenizer
from tasc.visible import visible_line

BARE = "{input}\n"
_GENERIC = "Input: {input}\nOutput: "
_MARK = "tasc-marks-the-input"  # in the place of an input while a chat template writes
_ERRORS = 2.0  # standard errors of a mean difference that noise seldom exceeds
_CLEAR = 0.1  # of the loss: the least gain of examples in a prompt, which every prefill reads

Pair = tuple[str, str]  # an input and its output


class TriedPrompt(Record):
    """A prompt that ``tasc init`` tried, and the loss of held-out outputs after it."""

    template: str
    nats: float
    """Mean loss of an output with its end token under the untuned model, in nats."""
    trained_nats: float | None = None
    """The same after a few steps of training; None if the prompt was not trained with."""
    examples: int = 0
    """Number of training examples in the prompt."""


@dataclass(frozen=True)
class ChosenPrompt:
    """The prompt template of a task file, and the tried ones, best first; none if untried."""

    template: str
    tried: tuple[TriedPrompt, ...] = ()
    outputs: int = 0  # held-out outputs whose loss was measured

    @property
    def lines(self) -> list[str]:
        """A line for each tried prompt with its figures, for a comment."""
        lines = []
        for prompt in self.tried:
            trained = (
                "" if prompt.trained_nats is None else f"   {prompt.trained_nats:8.2f} trained"
            )
            mark = "   (chosen)" if prompt.template == self.template else ""
            template = json.dumps(prompt.template, ensure_ascii=False)
            if prompt.examples and not mark:
                number = "one example" if prompt.examples == 1 else f"{prompt.examples} examples"
                template = f"the prompt with the lowest untuned loss, after {number}"
            lines.append(visible_line(f"{prompt.nats:8.2f}{trained}   {template}{mark}"))
        return lines


def labelled(source: Source) -> str:
    """Return a prompt that labels input and output with their columns' names if they are words."""
    names = source.input_column, source.output_column
    if not all(map(_is_words, names)):
        return _GENERIC
    before, after = (_words(name) for name in names)
    return f"{before[0].upper()}{before[1:]}: {{input}}\n{after[0].upper()}{after[1:]}: "


def candidates(source: Source, tokenizer: LoadedTokenizer) -> list[str]:
    """Return different prompt templates, the preferred ones first and the bare input last.

    After each comes the same with the tokenizer's beginning token in front, if it has one and the
    template does not begin with it. Neither training nor decoding adds that token by itself.
    """
    begin = _beginning(tokenizer)
    templates = [labelled(source), _GENERIC, *_chat(source, tokenizer), BARE]
    prompts = []
    for template in dict.fromkeys(templates):
        prompts.append(template)
        if begin and not template.startswith(begin):
            prompts.append(begin + template)
    return prompts


def few_shot(
    template: str, source: Source, tokenizer: LoadedTokenizer, examples: Sequence[Pair]
) -> str | None:
    """Return one of ``candidates`` with solved examples in front, as a template.

    In a chat, examples are earlier messages; elsewhere an empty line follows each. None if the chat
    template does not write them as they are.
    """
    begin = _beginning(tokenizer) or ""
    chats = _chat(source, tokenizer)
    for front in ("", begin):
        rest = template[len(front) :]
        if template.startswith(front) and rest in chats:
            longer = _chat(source, tokenizer, examples)
            return front + longer[0] if longer else None
    front = begin if begin and template.startswith(begin) else ""
    rest = template[len(front) :]
    inputs, outputs = [text for text, _ in examples], [output for _, output in examples]
    solved = zip(written(rest, inputs), outputs, strict=True)
    return front + "".join(_escaped(f"{prompt}{output}\n\n") for prompt, output in solved) + rest


def is_clear(losses: np.ndarray, others: np.ndarray) -> bool:
    """Return whether ``losses`` (N,) are clearly below ``others`` (N,) of the same outputs.

    The mean of the differences exceeds two standard errors and a tenth of the other mean.
    """
    gains = others - losses
    return _exceeds(gains) and bool(gains.mean() >= _CLEAR * others.mean())


def best(losses: Mapping[str, np.ndarray]) -> str:
    """Return the first template that is not significantly worse than the best one.

    ``losses`` has arrays (N,) of the same N outputs, by template in the order of preference. The
    best template has the lowest mean loss. Another one is significantly worse if the mean of their
    paired differences exceeds two standard errors.
    """
    lowest = min(losses, key=lambda template: float(losses[template].mean()))
    return next(
        template
        for template, values in losses.items()
        if template == lowest or not _exceeds(values - losses[lowest])
    )


def _exceeds(difference: np.ndarray) -> bool:
    """Return whether the mean of (N,) differences exceeds two standard errors."""
    if len(difference) < 2:
        return False
    error = difference.std(ddof=1) / np.sqrt(len(difference))
    return bool(difference.mean() > _ERRORS * error)


def _beginning(tokenizer: LoadedTokenizer) -> str | None:
    """Return the text of the beginning token, escaped for a template; None if there is none."""
    named = (tokenizer.named_tokens(name).get("bos_token") for name in CONFIGS)
    token = next(filter(None, named), None)
    if token is None or tokenizer.tokenizer.token_to_id(token) not in tokenizer.special_ids:
        return None
    return _escaped(token)


def _chat(source: Source, tokenizer: LoadedTokenizer, examples: Sequence[Pair] = ()) -> list[str]:
    """Return the chat template's prompt for an instruction and an input, as a template.

    ``examples`` are earlier messages. Empty if the tokenizer has no chat template, or it does not
    write the texts as they are, and the input once.
    """
    messages = []
    for text, output in [*examples, (_MARK, "text")]:
        messages.append({"role": "user", "content": f"{_instruction(source)}\n{text}"})
        messages.append({"role": "assistant", "content": output})
    try:
        template = ChatTemplate.of(tokenizer)
        if template is None:
            return []
        prompt, _ = template.write(Turn(tuple(messages[:-1]), messages[-1]))
    except InputError:  # chats are not this task's data: other prompts remain
        return []
    if examples and not all(message["content"] in prompt for message in messages[:-1]):
        return []
    before, *after = prompt.split(_MARK)
    return [f"{_escaped(before)}{{input}}{_escaped(after[0])}"] if len(after) == 1 else []


def _instruction(source: Source) -> str:
    names = source.input_column, source.output_column
    if not all(map(_is_words, names)) or names == ("input", "output"):
        return "Write the output for this input:"
    before, after = (_words(name) for name in names)
    return f"Write the {after} of this {before}:"


def _is_words(name: str) -> bool:
    """Return whether a column's name is made of words: letters only, two or more each."""
    words = _words(name).split(" ")
    return all(len(word) > 1 and word.isalpha() for word in words)


def _words(name: str) -> str:
    return name.replace("_", " ").replace("-", " ")


def _escaped(text: str) -> str:
    return text.replace("{", "{{").replace("}", "}}")


def with_figures(
    chosen: str,
    losses: Mapping[str, np.ndarray],
    trained: Mapping[str, np.ndarray],
    examples: Mapping[str, int] | None = None,
) -> ChosenPrompt:
    """Return the chosen template with the mean losses of all, the lowest first.

    ``examples`` has the number of examples of the templates with some.
    """
    tried = [
        TriedPrompt(
            template=template,
            nats=round(float(values.mean()), 3),
            trained_nats=(
                round(float(trained[template].mean()), 3) if template in trained else None
            ),
            examples=(examples or {}).get(template, 0),
        )
        for template, values in losses.items()
    ]
    tried.sort(
        key=lambda one: (
            one.examples > 0 and one.trained_nats is None,
            one.trained_nats is None,
            one.nats if one.trained_nats is None else one.trained_nats,
        )
    )
    return ChosenPrompt(chosen, tuple(tried), len(next(iter(losses.values()))))


def written(template: str, inputs: Sequence[str]) -> list[str]:
    """Return the prompts of ``template``, whose only field is ``{input}``."""
    source = Source(path="prompts", template=template)
    return [source.prompt(text, {}) for text in inputs]

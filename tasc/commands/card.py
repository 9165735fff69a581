"""The model card of a merged model: a README.md with what it is, how it was made, how it is used.

It names folders and files without where they lie, and no time: the same training writes the same
card, and one that is passed on tells nothing of a machine.
"""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import yaml

from tasc.data.corpus import Corpus
from tasc.data.local import is_local
from tasc.data.source import BUILTIN
from tasc.environment import environment
from tasc.files.packaged import PACKAGED
from tasc.options.references import resolve_model
from tasc.report.markdown import block, code, table
from tasc.training.finetuned import FinetuneResult
from tasc.training.options import FinetuneOptions

_VERSIONS = ("torch", "transformers", "peft")
_HELD = {"nf4": "in 4 bits (NF4)", "8bit": "in 8 bits", "none": "not quantised"}
_LONGEST = 300  # characters of a template that are shown


def model_card(
    options: FinetuneOptions, made: FinetuneResult, train: Corpus, validation: Corpus | None
) -> str:
    """Return the Markdown of a merged model's card, with the header that model hubs read."""
    parts = [
        _header(options, train),
        f"# {_of_model(options.model)}, fine-tuned on {_of_data(train)}",
        "\n".join(_summary(options, made)),
        "## Use",
        block("python", _python(train)),
        "With `tasc`, in this folder:",
        block("sh", "tasc export . --to vllm --output ../served\ntasc serve ../served"),
        "`tasc export --to` takes `sglang`, `llama-cpp` and `transformers`, too. Engines that load "
        "a folder of transformers load this one as it is.",
        "## Data",
        "\n".join(f"- {line}" for line in _data(train, validation)),
        "## Training",
        "\n".join(f"- {line}" for line in _training(options, made)),
        "## Results",
        *_results(made),
    ]
    return "\n\n".join(parts) + "\n"


def _header(options: FinetuneOptions, train: Corpus) -> str:
    held: dict[str, Any] = {
        "library_name": "transformers",
        "pipeline_tag": "text-generation",
        "tags": ["tasc"],
    }
    model = resolve_model(options.model)[1]
    if not Path(model).exists():
        held["base_model"] = PACKAGED[model].hub if model in PACKAGED else model
    if _on_hub(train):
        held["datasets"] = [train.source.path]
    return "---\n" + yaml.safe_dump(held, sort_keys=False) + "---"


def _on_hub(corpus: Corpus) -> bool:
    path = corpus.source.path
    return not path.startswith(BUILTIN) and not is_local(path)


def _of_model(text: str) -> str:
    """Name a model: a Hub id as it is, a folder without what is above it."""
    label, path = resolve_model(text)
    return code(label if Path(path).exists() else path)


def _of_data(corpus: Corpus) -> str:
    path = corpus.source.path
    return code(Path(path).name if is_local(path) else path)


def _summary(options: FinetuneOptions, made: FinetuneResult) -> Iterator[str]:
    how = "with LoRA adapters merged into it" if _adapted(options) else "with all weights trained"
    yield f"A causal language model: {_of_model(options.model)} {how}."
    if made.added:
        yield (
            f"Its tokenizer has {len(made.added):,} new tokens (TASC-ft), frequent n-grams of the "
            "task's outputs, so an output takes fewer decoding steps."
        )


_LOAD = """\
from transformers import AutoModelForCausalLM, AutoTokenizer

folder = "."  # this one
tokenizer = AutoTokenizer.from_pretrained(folder)
model = AutoModelForCausalLM.from_pretrained(folder)
"""
_CHAT = """\
messages = [{"role": "user", "content": "your question"}]
inputs = tokenizer.apply_chat_template(
    messages, add_generation_prompt=True, return_tensors="pt", return_dict=True
)
"""
_PLAIN = """\
prompt = {prompt!a}
inputs = tokenizer(prompt, add_special_tokens=False, return_tensors="pt")
"""
_GENERATE = """\
output = model.generate(**inputs, max_new_tokens=256, do_sample=False)
print(tokenizer.decode(output[0, inputs["input_ids"].shape[1]:], skip_special_tokens=True))"""


def _python(train: Corpus) -> str:
    """Return code that writes a prompt as training did, and generates."""
    source = train.source
    columns = {name: f"your {name}" for name in source.template_columns()}
    plain = _PLAIN.format(prompt=source.prompt("your input", columns))
    return _LOAD + (_CHAT if _by_chat_template(train) else plain) + _GENERATE


def _by_chat_template(train: Corpus) -> bool:
    return train.source.chat and not train.source.names("template")


def _data(train: Corpus, validation: Corpus | None) -> Iterator[str]:
    source = train.source
    yield f"Source: {_of_data(train)}, split {code(train.split)}: {len(train.examples):,} examples."
    if train.dropped:
        yield f"Left out, for their output is empty: {train.dropped:,}."
    columns = dict.fromkeys((source.input_column, source.output_column))
    yield f"Columns: {', '.join(map(code, columns))}."
    if _by_chat_template(train):
        yield "Prompts are written by the tokenizer's chat template."
    else:
        yield f"Prompt template: {code(source.template[:_LONGEST])}."
    if validation is not None:
        held_out = f"split {code(validation.split)}: {len(validation.examples):,} examples"
        yield f"Validation loss on: {held_out}."


def _training(options: FinetuneOptions, made: FinetuneResult) -> Iterator[str]:
    """Yield the settings that a training like this one needs."""
    report, schedule = made.report, options.schedule()
    yield (
        f"{report.steps:,} steps of {schedule.effective_batch} examples; {report.tokens:,} tokens "
        f"read, {report.targets:,} learnt; at most {options.max_length:,} tokens an example."
    )
    if _adapted(options):
        yield (
            f"LoRA of rank {options.rank}, alpha {options.alpha}, dropout {options.dropout:g}, on "
            f"{code(options.target_modules)}; linear layers {_HELD[options.quantization]} while "
            f"training. Embeddings trained: {options.trained_rows}."
        )
    else:
        yield "All weights trained, without adapters."
    yield f"AdamW, peak learning rate {options.peak:g}; seed {options.seed}."
    held = environment()
    versions = {"tasc": held["tasc"]} | {name: held["packages"][name] for name in _VERSIONS}
    yield "Versions: " + ", ".join(f"{name} {version}" for name, version in versions.items()) + "."


def _adapted(options: FinetuneOptions) -> bool:
    return options.adapter == "lora"


def _results(made: FinetuneResult) -> Iterator[str]:
    report = made.report
    yield f"Training loss of the last step: {report.losses[-1]:.3f} nats a token."
    if report.evaluations:
        yield table(
            ["step", "validation loss", "examples predicted token for token"],
            [[f"{e.step:,}", f"{e.loss:.3f}", f"{e.exact:.1%}"] for e in report.evaluations],
        )
    if report.kept_step < report.steps:
        yield f"Weights of step {report.kept_step:,}, which had the best validation result."
    if report.cut_examples:
        yield f"Examples longer than allowed, and cut: {report.cut_examples:,}."
    yield "Quality and speed were not measured by the training: `tasc bench` does."

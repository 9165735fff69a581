"""The model card of a merged model: README.md with its use, data, training and results.

It contains no paths and no times, so the same training writes the same card on every machine.
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
from tasc.training.core.schedule import TrainReport
from tasc.training.finetuned import FinetuneResult
from tasc.training.options import FinetuneOptions

_HELD = {"nf4": "in 4 bits (NF4)", "8bit": "in 8 bits", "none": "not quantized"}
_LONGEST = 300  # characters of a template that are shown
_CHAT = """messages = [{"role": "user", "content": "your question"}]
inputs = tokenizer.apply_chat_template(
    messages, add_generation_prompt=True, return_tensors="pt", return_dict=True
)"""
_PLAIN = """prompt = {prompt!a}
inputs = tokenizer(prompt, add_special_tokens=False, return_tensors="pt")"""
_PYTHON = """from transformers import AutoModelForCausalLM, AutoTokenizer

folder = "."  # this folder
tokenizer = AutoTokenizer.from_pretrained(folder)
model = AutoModelForCausalLM.from_pretrained(folder)
{inputs}
output = model.generate(**inputs, max_new_tokens=256, do_sample=False)
print(tokenizer.decode(output[0, inputs["input_ids"].shape[1]:], skip_special_tokens=True))"""
_SHELL = "tasc export . --to vllm --output ../served\ntasc serve ../served"


def model_card(
    options: FinetuneOptions, made: FinetuneResult, train: Corpus, validation: Corpus | None
) -> str:
    """Return the Markdown of a merged model's card, with the YAML header that the Hub reads."""
    label, model = resolve_model(options.model)
    local = Path(model).exists()
    base, path = code(label if local else model), train.source.path
    data = code(Path(path).name if is_local(path) else path)
    header: dict[str, Any] = {
        "library_name": "transformers",
        "pipeline_tag": "text-generation",
        "tags": ["tasc"],
    }
    if not local:
        header["base_model"] = PACKAGED[model].hub if model in PACKAGED else model
    if not path.startswith(BUILTIN) and not is_local(path):
        header["datasets"] = [path]
    how = "with LoRA adapters merged" if options.adapter == "lora" else "with all weights trained"
    new = (
        f" Its tokenizer has {len(made.start.added):,} new tokens (TASC-ft), frequent n-grams of "
        "the task's outputs, so an output takes fewer decoding steps."
    )
    chat = _by_chat_template(train)
    plain = _PLAIN.format(prompt=train.source.example())
    parts = [
        f"---\n{yaml.safe_dump(header, sort_keys=False)}---",
        f"# {base}, fine-tuned on {data}",
        f"A causal language model: {base} {how}.{new if made.start.added else ''}",
        f"## Use\n\n{block('python', _PYTHON.format(inputs=_CHAT if chat else plain))}",
        f"With `tasc`, in this folder:\n\n{block('sh', _SHELL)}",
        "Engines that load a transformers folder load this one unchanged.",
    ]
    sections = {
        "Data": _data(data, train, validation),
        "Training": _training(options, made.report),
        "Results": _results(made.report),
    }
    for title, lines in sections.items():
        parts += [f"## {title}", "\n".join(f"- {line}" for line in lines)]
    if made.report.evaluations:
        rows = [[f"{e.step:,}", f"{e.loss:.3f}", f"{e.exact:.1%}"] for e in made.report.evaluations]
        parts.append(table(["step", "validation loss", "outputs predicted exactly"], rows))
    return "\n\n".join(parts) + "\n"


def _by_chat_template(train: Corpus) -> bool:
    return train.source.chat and not train.source.names("template")


def _data(name: str, train: Corpus, validation: Corpus | None) -> Iterator[str]:
    source = train.source
    yield f"Source: {name}, split {code(train.split)}: {len(train.examples):,} examples."
    if train.dropped:
        yield f"Left out because their output is empty: {train.dropped:,}."
    columns = dict.fromkeys((source.input_column, source.output_column))
    yield f"Columns: {', '.join(map(code, columns))}."
    template = f"Prompt template: {code(source.template[:_LONGEST])}."
    yield "Prompts: the tokenizer's chat template." if _by_chat_template(train) else template
    if validation is not None:
        yield f"Validation: split {code(validation.split)}, {len(validation.examples):,} examples."


def _training(options: FinetuneOptions, report: TrainReport) -> Iterator[str]:
    yield (
        f"{report.steps:,} steps of {options.schedule().effective_batch} examples; "
        f"{report.tokens:,} tokens read, {report.targets:,} learnt; "
        f"at most {options.max_length:,} tokens per example."
    )
    yield (
        f"LoRA of rank {options.rank}, alpha {options.alpha}, dropout {options.dropout:g}, on "
        f"{code(options.target_modules)}; linear layers {_HELD[options.quantization]} during "
        f"training. Embeddings trained: {options.trained_rows}."
        if options.adapter == "lora"
        else "All weights trained, without adapters."
    )
    yield f"AdamW, peak learning rate {options.peak:g}; seed {options.seed}."
    found = environment()
    packages = [f"{name} {found['packages'][name]}" for name in ("torch", "transformers", "peft")]
    yield f"Versions: tasc {found['tasc']}, {', '.join(packages)}."


def _results(report: TrainReport) -> Iterator[str]:
    yield f"Training loss of the last step: {report.losses[-1]:.3f} nats per token."
    if report.kept_step < report.steps:
        yield f"Weights of step {report.kept_step:,}, which had the best validation result."
    if report.cut_examples:
        yield f"Examples cut to the maximum length: {report.cut_examples:,}."
    yield "The training did not measure quality and speed; `tasc bench` does."

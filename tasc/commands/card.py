"""The model card of a merged model: README.md with its use, data, training and results.

It contains no paths and no times, so the same training writes the same card on every machine.
"""

from pathlib import Path
from typing import Any

import yaml

from tasc.data.corpus import Corpus
from tasc.data.local import is_local
from tasc.data.source import BUILTIN
from tasc.environment import environment
from tasc.files.packaged import PACKAGED
from tasc.options.references import resolve_model
from tasc.report.html import plain_template
from tasc.report.markdown import block, code, table
from tasc.training.finetuned import FinetuneResult
from tasc.training.options import FinetuneOptions

_QUANTIZED = {"nf4": "in 4 bits (NF4)", "8bit": "in 8 bits", "none": "not quantized"}
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
new = output[0, inputs["input_ids"].shape[1]:].tolist()
ends = model.generation_config.eos_token_id
ends = ends if isinstance(ends, list) else [ends]
print(tokenizer.decode([token for token in new if token not in ends]))"""


def model_card(
    options: FinetuneOptions, result: FinetuneResult, train: Corpus, validation: Corpus | None
) -> str:
    """Return the Markdown of a merged model's card, with the YAML header that the Hub reads."""
    label, model = resolve_model(options.model)
    source, report = train.source, result.report
    chat = source.chat and not source.names("template")
    inputs = _CHAT if chat else _PLAIN.format(prompt=source.example())
    rows = [[f"{e.step:,}", f"{e.loss:.3f}", f"{e.exact:.1%}"] for e in report.evaluations]
    # ``code`` and ``block`` enclose what others wrote.
    card = plain_template("tasc.commands", "card.md", code=code, number="{:,}".format)
    return card.render(
        header=yaml.safe_dump(_header(model, source.path), sort_keys=False),
        base=code(label if Path(model).exists() else model),
        data=code(Path(source.path).name if is_local(source.path) else source.path),
        lora=options.adapter == "lora",
        added=len(result.start.added),
        python=block("python", _PYTHON.format(inputs=inputs)),
        chat=chat,
        columns=dict.fromkeys((source.input_column, source.output_column)),
        template=source.template[:_LONGEST],
        quantized=_QUANTIZED[options.quantization],
        versions=environment(),
        evaluations=table(["step", "validation loss", "outputs predicted exactly"], rows),
        train=train,
        validation=validation,
        options=options,
        report=report,
    )


def _header(model: str, data: str) -> dict[str, Any]:
    """Return what the Hub reads of a card; it links a model and data that are on the Hub."""
    header: dict[str, Any] = {
        "library_name": "transformers",
        "pipeline_tag": "text-generation",
        "tags": ["tasc"],
    }
    if not Path(model).exists():
        header["base_model"] = PACKAGED[model].hub if model in PACKAGED else model
    if not data.startswith(BUILTIN) and not is_local(data):
        header["datasets"] = [data]
    return header

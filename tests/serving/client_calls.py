"""What clients of others get from tasc serve, in an environment of their own: JSON out.

Arguments: the client, the address of the API, the key, the model's name.
"""

import json
import sys
from typing import Any

MESSAGES: list[Any] = [{"role": "user", "content": "wake me up"}]
TOOL = {
    "type": "function",
    "function": {
        "name": "wake",
        "description": "Wakes a person up.",
        "parameters": {"type": "object", "properties": {"time": {"type": "string"}}},
    },
}


def with_litellm(url: str, key: str, model: str) -> dict[str, Any]:
    import litellm

    own: dict[str, Any] = {"api_base": url, "api_key": key, "temperature": 0, "max_tokens": 12}
    chat = {"model": f"openai/{model}", "messages": MESSAGES, **own}
    whole = litellm.completion(**chat, logprobs=True, top_logprobs=1, seed=3)
    pieces = litellm.completion(**chat, stream=True, stream_options={"include_usage": True})
    text = litellm.text_completion(model=f"text-completion-openai/{model}", prompt="wake", **own)
    form = {"type": "json_schema", "json_schema": {"name": "a", "schema": {"const": "b"}}}
    return {
        "whole": whole.choices[0].message.content,
        "tokens": whole.usage.completion_tokens,
        "logprobs": len(whole.choices[0].logprobs.content),
        "streamed": "".join(c.delta.content or "" for piece in pieces for c in piece.choices),
        "text": text.choices[0].text,
        "form": litellm.completion(**chat, response_format=form).choices[0].message.content,
        "tools": litellm.completion(**chat, tools=[TOOL]).usage.prompt_tokens,
        "refused": _refused(lambda: litellm.completion(**chat, logit_bias={"1": 5})),
    }


def with_langchain(url: str, key: str, model: str) -> dict[str, Any]:
    from langchain_openai import ChatOpenAI, OpenAI

    own: Any = {"base_url": url, "api_key": key, "model": model, "temperature": 0}
    chat = ChatOpenAI(**own, max_tokens=12, max_retries=0)
    whole = chat.invoke("wake me up", logprobs=True, top_logprobs=1)
    form = {"type": "json_schema", "json_schema": {"name": "a", "schema": {"const": "b"}}}
    return {
        "whole": whole.content,
        "tokens": whole.usage_metadata["output_tokens"],
        "logprobs": len(whole.response_metadata["logprobs"]["content"]),
        "streamed": "".join(piece.content for piece in chat.stream("wake me up")),
        "text": OpenAI(**own, max_tokens=12, max_retries=0).invoke("wake"),
        "form": chat.invoke("wake me up", response_format=form).content,
        "tools": chat.bind_tools([TOOL]).invoke("wake me up").usage_metadata["input_tokens"],
        "refused": _refused(lambda: chat.invoke("wake me up", logit_bias={"1": 5})),
    }


def _refused(call: Any) -> str:
    try:
        call()
    except Exception as error:
        return str(error)
    return ""


if __name__ == "__main__":
    client, *where = sys.argv[1:]
    calls = {"litellm": with_litellm, "langchain": with_langchain}
    print(json.dumps(calls[client](*where)))  # noqa: T201

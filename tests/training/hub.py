"""A stand-in for the Hub that takes models, as its client sends them; on the loopback."""

import base64
import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer


@dataclass
class Hub:
    """What it was asked, and how it answers.

    Attributes:
        refuses: a part of the path of requests that are answered with 403.
        asked: method and path of each request.
        tokens: what came as authorisation, of requests to its API.
        created: the bodies that ask for a repository.
        stored: large files by their SHA-256.
        files: the files of the repository after the commit.
    """

    refuses: str = ""
    url: str = ""
    asked: list[tuple[str, str]] = field(default_factory=list)
    tokens: set[str] = field(default_factory=set)
    created: list[dict[str, object]] = field(default_factory=list)
    stored: dict[str, bytes] = field(default_factory=dict)
    files: dict[str, bytes] = field(default_factory=dict)


@contextmanager
def hub_of(told: Hub) -> Iterator[Hub]:
    handler = type("Handler", (_Handler,), {"told": told})
    server = ThreadingHTTPServer(("127.0.0.1", 0), handler)
    told.url = f"http://127.0.0.1:{server.server_port}"
    thread = threading.Thread(target=server.serve_forever, args=(0.02,), daemon=True)
    thread.start()
    try:
        yield told
    finally:
        server.shutdown()
        server.server_close()
        thread.join()


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    told: Hub

    def log_message(self, *_):
        pass

    def do_GET(self):
        self._begin()
        self._reply({}, 404)

    def do_PUT(self):
        self.told.stored[self.path.rpartition("/")[2]] = self._begin()
        self._reply({})

    def do_POST(self):
        told, body = self.told, self._begin()
        told.tokens.add(self.headers["Authorization"])
        repository = f"{told.url}/me/tuned"
        if told.refuses and told.refuses in self.path:
            self._reply({"error": "Forbidden: the \x1b[31mtoken may not write"}, 403)
        elif self.path == "/api/repos/create":
            told.created.append(json.loads(body))
            self._reply({"url": repository})
        elif "/preupload/" in self.path:
            kinds = {True: "lfs", False: "regular"}
            named = [file["path"] for file in json.loads(body)["files"]]
            modes = [(path, kinds[path.endswith(".safetensors")]) for path in named]
            self._reply(
                {"files": [{"path": p, "uploadMode": m, "shouldIgnore": False} for p, m in modes]}
            )
        elif self.path.endswith("/info/lfs/objects/batch"):
            objects = json.loads(body)["objects"]
            for each in objects:
                each["actions"] = {"upload": {"href": f"{told.url}/store/{each['oid']}"}}
            self._reply({"transfer": "basic", "objects": objects})
        elif "/commit/" in self.path:
            for line in map(json.loads, body.splitlines()):
                held = line["value"]
                if line["key"] == "lfsFile":
                    told.files[held["path"]] = told.stored[held["oid"]]
                elif line["key"] == "file":
                    told.files[held["path"]] = base64.b64decode(held["content"])
            self._reply({"commitUrl": f"{repository}/commit/1", "commitOid": "1"})
        else:
            self._reply({"errors": [], "warnings": []})  # what it says of a model card

    def _begin(self) -> bytes:
        self.told.asked.append((self.command, self.path))
        return self.rfile.read(int(self.headers.get("Content-Length", 0)))

    def _reply(self, body: dict[str, object], status: int = 200) -> None:
        text = json.dumps(body).encode()
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(text)))
        self.end_headers()
        self.wfile.write(text)

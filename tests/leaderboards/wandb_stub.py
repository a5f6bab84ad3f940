"""A small local stand-in for the W&B API: keeps projects, runs and reports, and every request, in memory."""

from __future__ import annotations

import gzip
import json
import re
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

WHEN = "2026-01-01T00:00:00Z"


class Stub:
    def __init__(self) -> None:
        self.projects: set[str] = set()
        self.runs: dict[str, dict[str, Any]] = {}  # id -> variables of its UpsertBucket, and "history"
        self.reports: dict[str, dict[str, Any]] = {}  # id -> variables of upsertView
        self.operations: list[str] = []
        self.keys: set[str] = set()  # how requests proved who they are
        self.unknown: list[str] = []
        handler = type("Handler", (_Handler,), {"stub": self})
        self.server = ThreadingHTTPServer(("127.0.0.1", 0), handler)
        threading.Thread(target=self.server.serve_forever, daemon=True).start()

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server.server_port}"

    def answer(self, name: str, v: dict[str, Any]) -> dict[str, Any]:
        self.operations.append(name)
        if method := getattr(self, f"_{name.lower()}", None):
            return method(v)
        self.unknown.append(name)
        return {}

    def _viewer(self, v):
        return {"viewer": {"id": "u", "entity": "team", "username": "team", "flags": "{}", "teams": {"edges": []}}}

    def _getdefaultentity(self, v):
        return self._viewer(v)

    def _serverinfo(self, v):
        return {"serverInfo": {"cliVersionInfo": {"max_cli_version": "9.9.9"}, "latestLocalVersionInfo": None}}

    def _upsertbucket(self, v):
        run = self.runs.setdefault(v["name"], {"history": {}})
        run.update({key: value for key, value in v.items() if value is not None})
        self.projects.add(v["project"])
        project = {"id": "p", "name": v["project"], "entity": {"id": "e", "name": v["entity"]}}
        names = {"id": v["name"], "name": v["name"], "displayName": v.get("displayName"), "historyLineCount": 0}
        return {"upsertBucket": {"bucket": {**names, "project": project, "sweepName": None}, "inserted": True}}

    def _runresumestatus(self, v):
        return {"model": {"id": "p", "name": "p", "entity": {"id": "e", "name": "team"}, "bucket": None}}

    def _createrunfiles(self, v):
        files = [{"name": name, "uploadUrl": f"{self.url}/upload/{name}"} for name in v["files"]]
        return {"createRunFiles": {"runID": v["run"], "uploadHeaders": [], "files": files}}

    def _page(self, nodes):
        edges = [{"node": node, "cursor": "x"} for node in nodes]
        return {"edges": edges, "pageInfo": {"endCursor": None, "hasNextPage": False}}

    def _getprojects(self, v):
        facts = {"entityName": "team", "createdAt": "2026", "isBenchmark": False, "user": None}
        return {"models": self._page([{"id": name, "name": name, **facts} for name in self.projects])}

    def _projectinternalid(self, v):
        known = v["projectName"] in self.projects
        return {"project": {"id": "p", "internalId": "cHJvamVjdDox"} if known else None}

    def _upsertmodel(self, v):
        self.projects.add(v["name"])
        return {"upsertModel": {"project": {"id": "p", "name": v["name"]}, "model": {"id": "p", "name": v["name"]}}}

    def _runs(self, v):
        nothing = ("sweepName", "heartbeatAt", "jobType", "group", "commit", "description", "notes")
        facts = {
            **dict.fromkeys(nothing),
            **{"state": "finished", "tags": [], "config": "{}", "summaryMetrics": "{}", "systemMetrics": "{}"},
            **{"createdAt": WHEN, "readOnly": False, "user": {"name": "team", "username": "team"}},
            **{"historyLineCount": 1, "projectId": "1", "historyKeys": {}},
        }
        nodes = [{"id": name, "name": name, "displayName": name, **facts} for name in self.runs]
        return {"project": {"internalId": "1", "runCount": len(nodes), "readOnly": False, "runs": self._page(nodes)}}

    def _projectviews(self, v):
        facts = {"createdAt": WHEN, "updatedAt": WHEN, "user": {"username": "team", "photoUrl": None, "email": "e"}}
        kept = ("name", "displayName", "description", "spec")
        nodes = [{"id": i, **{key: r[key] for key in kept}, **facts} for i, r in self.reports.items()]
        return {"project": {"allViews": self._page(nodes)}}

    def _upsertview(self, v):
        name = v["id"] or f"report{len(self.reports)}"
        inserted = name not in self.reports
        self.reports[name] = v
        project = {"id": "p", "name": v["projectName"], "entityName": v["entityName"]}
        kept = {key: v[key] for key in ("type", "name", "displayName", "description", "spec")}
        view = {"id": name, **kept, "project": project, "updatedAt": WHEN}
        return {"upsertView": {"view": view, "inserted": inserted}}

    def stream(self, run: str, data: dict[str, Any]) -> None:
        for text in data.get("files", {}).get("wandb-history.jsonl", {}).get("content", []):
            line = json.loads(text)
            self.runs[run]["history"][line["_step"]] = line


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    stub: Stub

    def log_message(self, *args: object) -> None:
        pass

    def _handle(self) -> None:
        body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
        if self.headers.get("Content-Encoding") == "gzip":
            body = gzip.decompress(body)
        self.stub.keys.add(self.headers.get("Authorization") or "")
        answer: dict[str, Any] = {}
        if self.path.startswith("/graphql"):
            asked = json.loads(body)
            named = re.search(r"(?:query|mutation)\s+(\w+)", asked["query"])
            answer = {"data": self.stub.answer(named[1] if named else "?", asked.get("variables") or {})}
        elif found := re.match(r"/files/[^/]+/[^/]+/([^/]+)/file_stream", self.path):
            self.stub.stream(found[1], json.loads(body))
        text = json.dumps(answer).encode()
        self.send_response(200)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(text)))
        self.end_headers()
        self.wfile.write(text)

    do_GET = do_POST = do_PUT = _handle

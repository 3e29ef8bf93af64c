"""A Hugging Face hub that is played: the parts of its HTTP API by which files are listed and fetched, and a second server
in the place of its content network, to which files are redirected."""
import contextlib
import hashlib
import http.server
import json
import re
import threading
import time
import urllib.parse

COMMIT = "0123456789abcdef0123456789abcdef01234567"


class PlayedHub:
    """`repositories`: {"owner/repo": {path: bytes}}. `token`: who does not send it gets 401. `faults`: called with the request's
    handler before each answer; one that returns True has answered by itself."""

    def __init__(self, repositories, token=None):
        self.repositories, self.token = repositories, token
        self.commits = {name: COMMIT for name in repositories}
        self.requests, self.cdn_requests = [], []  # (method, path, headers)
        self.fault = lambda handler: False
        self.cdn_fault = lambda handler: False
        self.url = self.cdn_url = None

    def paths(self):
        return [path for _, path, _ in self.requests]

    def answer(self, handler):
        path, _, query = handler.path.partition("?")
        for name, files in self.repositories.items():
            commit = self.commits[name]
            if self.token and handler.headers.get("Authorization") != f"Bearer {self.token}":
                return handler.send(401, {"X-Error-Code": "RepoNotFound", "X-Error-Message": "Invalid username or password."})
            if revision := re.fullmatch(rf"/api/models/{name}/revision/(.+)", path):
                if urllib.parse.unquote(revision[1]) not in ("main", "refs/pr/1", commit):
                    return handler.send(404, {"X-Error-Code": "RevisionNotFound"})
                return handler.send_json({"id": name, "sha": commit, "siblings": [{"rfilename": file} for file in files]})
            if re.fullmatch(rf"/api/models/{name}/tree/{commit}", path):
                return handler.send_json([entry(file, content) for file, content in files.items()])
            if file := re.fullmatch(rf"/{name}/resolve/(main|{commit})/(.+)", path):
                content = files.get(urllib.parse.unquote(file[2]))
                if content is None:
                    return handler.send(404, {"X-Error-Code": "EntryNotFound", "X-Repo-Commit": commit})
                digest = hashlib.sha256(content).hexdigest()
                return handler.send(302, {"X-Repo-Commit": commit, "X-Linked-Etag": f'"{digest}"', "X-Linked-Size": str(len(content)),
                                          "Location": f"{self.cdn_url}/{name}/{digest}?signature=secret"})
        handler.send(404, {"X-Error-Code": "RepoNotFound", "X-Error-Message": "Repository not found"})

    def answer_cdn(self, handler):
        assert "Authorization" not in handler.headers, "the token left the hub"
        for files in self.repositories.values():
            for content in files.values():
                if hashlib.sha256(content).hexdigest() in handler.path:
                    return handler.send_file(content)
        handler.send(404)


def entry(path, content):
    digest = hashlib.sha256(content).hexdigest()
    return {"type": "file", "path": path, "size": len(content), "oid": hashlib.sha1(content).hexdigest(),
            "lfs": {"oid": digest, "size": len(content), "pointerSize": 134}}


def serve(answer, seen, fault):
    class Handler(http.server.BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_GET(self):
            seen.append((self.command, self.path, dict(self.headers)))
            if not fault(self):
                answer(self)

        do_HEAD = do_GET

        def send(self, status, headers=(), body=b""):
            self.send_response(status)
            for name, value in dict(headers).items():
                self.send_header(name, value)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            if self.command != "HEAD":
                self.wfile.write(body)

        def send_json(self, value):
            self.send(200, {"Content-Type": "application/json"}, json.dumps(value).encode())

        def send_file(self, content, bytes_per_s=None):
            begin = int(re.fullmatch(r"bytes=(\d+)-", self.headers.get("Range", "bytes=0-"))[1])
            headers = {"Content-Range": f"bytes {begin}-{len(content) - 1}/{len(content)}"} if begin else {}
            if not bytes_per_s:
                return self.send(206 if begin else 200, headers, content[begin:])
            self.send_response(206 if begin else 200)
            for name, value in {**headers, "Content-Length": str(len(content) - begin)}.items():
                self.send_header(name, value)
            self.end_headers()
            with contextlib.suppress(OSError):
                for at in range(begin, len(content), bytes_per_s // 20):
                    self.wfile.write(content[at:at + bytes_per_s // 20])
                    time.sleep(1 / 20)

        def log_message(self, *arguments):
            pass

    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    server.daemon_threads = True
    threading.Thread(target=server.serve_forever, daemon=True).start()
    return server


@contextlib.contextmanager
def playing(repositories, token=None):
    hub = PlayedHub(repositories, token)
    servers = [serve(hub.answer, hub.requests, lambda handler: hub.fault(handler)),
               serve(hub.answer_cdn, hub.cdn_requests, lambda handler: hub.cdn_fault(handler))]
    hub.url, hub.cdn_url = (f"http://127.0.0.1:{server.server_port}" for server in servers)
    try:
        yield hub
    finally:
        for server in servers:
            server.shutdown()
            server.server_close()

# SPDX-License-Identifier: Apache-2.0
"""Registries on loopback: the real one from Debian, and one that can be made to misbehave."""
import contextlib
import http.server
import socket
import ssl
import subprocess
import threading
import time
import urllib.parse


def free_port():
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        return s.getsockname()[1]


@contextlib.contextmanager
def real(folder):
    """docker-registry with its storage in folder; yields HOST:PORT."""
    port = free_port()
    config = folder / "config.yml"
    config.write_text(f"""version: 0.1
log: {{level: error}}
storage: {{filesystem: {{rootdirectory: {folder}/data}}}}
http: {{addr: "127.0.0.1:{port}"}}
""")
    log = open(folder / "log", "wb")
    process = subprocess.Popen(["docker-registry", "serve", str(config)], stdout=log, stderr=log)
    try:
        for _ in range(200):
            with contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", port), 1):
                break
            assert process.poll() is None, (folder / "log").read_text()
            time.sleep(0.05)
        else:
            raise AssertionError("docker-registry did not start")
        yield f"127.0.0.1:{port}"
    finally:
        process.kill()
        process.wait()
        log.close()


class Fake:
    """
    A registry out of dictionaries. answers: path -> (status, headers, body); before: a function of
    the handler that may answer by itself and then returns True. log: (path, headers) of each request.
    """

    def __init__(self, tls=None):
        self.answers, self.before, self.log = {}, None, []
        fake = self

        class Handler(http.server.BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def do_GET(self):
                fake.log.append((self.path, dict(self.headers)))
                if fake.before and fake.before(self):
                    return
                path = urllib.parse.urlsplit(self.path).path
                self.reply(*fake.answers.get(path, (404, {}, b"{}")))

            def reply(self, status, headers, body):
                self.send_response(status)
                for key, value in headers.items():
                    self.send_header(key, value)
                self.send_header("Content-Length", str(len(body)))
                self.end_headers()
                with contextlib.suppress(OSError):
                    self.wfile.write(body)

            def log_message(self, *args):
                pass

        self.server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.server.daemon_threads = True
        if tls:
            context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
            context.load_cert_chain(*tls)
            self.server.socket = context.wrap_socket(self.server.socket, server_side=True)
        self.host = f"127.0.0.1:{self.server.server_address[1]}"
        self.thread = threading.Thread(target=self.server.serve_forever, daemon=True)

    def __enter__(self):
        self.thread.start()
        return self

    def __exit__(self, *exc):
        self.server.shutdown()
        self.server.server_close()

    def add(self, name, tag, image):
        for digest, blob in image.blobs().items():
            self.answers[f"/v2/{name}/blobs/{digest}"] = (200, {}, blob)
        for digest, (media, body) in image.documents().items():
            self.answers[f"/v2/{name}/manifests/{digest}"] = (200, {"Content-Type": media}, body)
        self.answers[f"/v2/{name}/manifests/{tag}"] = (200, {"Content-Type": image.type}, image.manifest)

"""A web server for those who ask an issuer of tokens."""

import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer


class Site:
    """A web server that publishes `body`, with `status`, and counts how often it is asked.

    `pages` are what it has at other paths than that of its URL. It answers while `opened` is set.
    """

    def __init__(self) -> None:
        self.body = b""
        self.pages: dict[str, bytes] = {}
        self.status = 200
        self.location = ""
        self.count = 0
        self.opened = threading.Event()
        self.opened.set()
        site = self

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                site.count += 1
                site.opened.wait(60)
                body = site.body if self.path == "/jwks" else site.pages.get(self.path)
                self.send_response(404 if body is None else site.status)
                if site.location:
                    self.send_header("Location", site.location)
                self.end_headers()
                self.wfile.write(body or b"")

            def log_message(self, format: str, *args: object) -> None:
                """Nothing is said."""

        self.server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.root = f"http://127.0.0.1:{self.server.server_address[1]}"
        self.url = f"{self.root}/jwks"
        threading.Thread(target=self.server.serve_forever, daemon=True).start()

    def close(self) -> None:
        self.opened.set()
        self.server.shutdown()
        self.server.server_close()

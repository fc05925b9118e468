"""A collector of OpenTelemetry's spans, which takes what a broker sends and shows it to a test."""

import threading
from http.server import BaseHTTPRequestHandler, HTTPServer
from queue import Queue

from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest


class Collector:
    """Takes OTLP over HTTP. `requests` are what came."""

    def __init__(self) -> None:
        self.requests: Queue[ExportTraceServiceRequest] = Queue()
        requests = self.requests

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                size = int(self.headers["content-length"])
                requests.put(ExportTraceServiceRequest.FromString(self.rfile.read(size)))
                self.send_response(200)
                self.send_header("content-length", "0")
                self.end_headers()

            def log_message(self, format: str, *args: object) -> None:
                """Not among what the tests say."""

        self.server = HTTPServer(("127.0.0.1", 0), Handler)
        self.endpoint = f"http://127.0.0.1:{self.server.server_port}/v1/traces"
        threading.Thread(target=self.server.serve_forever, daemon=True).start()

    def close(self) -> None:
        self.server.shutdown()
        self.server.server_close()

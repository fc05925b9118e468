"""An HTTP server of a test on a port of its own."""

import socket

from flintmq.management.http.server import HttpServer


async def listen(server: HttpServer) -> int:
    """Let it listen on a free port of this machine, and return the port."""
    listening = socket.create_server(("127.0.0.1", 0))
    port: int = listening.getsockname()[1]
    await server.listen([listening])
    return port

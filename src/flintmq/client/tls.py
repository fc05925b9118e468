"""TLS for clients: whom to trust, and who to be."""

import ssl
from dataclasses import dataclass

from flintmq.client.errors import InvalidUrl


@dataclass(frozen=True)
class Tls:
    """Files in PEM. Without `ca_file`, the server's certificate has to be of an authority that this machine trusts.

    `cert_file` (with its key, or `key_file` beside it) is who this client is. `server_name` is what the certificate has
    to name and the server is told, if it is not the host of the URL. `verifies` is False for a server that is not
    checked at all.
    """

    ca_file: str = ""
    cert_file: str = ""
    key_file: str = ""
    server_name: str = ""
    verifies: bool = True

    def context(self) -> ssl.SSLContext:
        """Raises InvalidUrl for files that cannot be used."""
        try:
            context = ssl.create_default_context(cafile=self.ca_file or None)
            if self.cert_file:
                context.load_cert_chain(self.cert_file, self.key_file or None)
        except OSError as error:
            raise InvalidUrl(f"AMQP URL: its TLS files cannot be used: {error}") from error
        if not self.verifies:
            context.check_hostname = False
            context.verify_mode = ssl.CERT_NONE
        return context

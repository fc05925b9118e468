"""The TLS settings of a client: the authority it trusts, and its own certificate."""

import ssl
from dataclasses import dataclass

from flintmq.client.errors import InvalidUrl


@dataclass(frozen=True)
class Tls:
    """TLS settings; the files are in PEM.

    Attributes:
        ca_file: The authority that must have signed the server's certificate. "": those that this machine trusts.
        cert_file: The client's certificate, with its key unless `key_file` has it. "": none.
        key_file: The key of the certificate.
        server_name: The name that the certificate must have, and that the server gets. "": the host of the URL.
        verifies: Whether the server's certificate is checked.
    """

    ca_file: str = ""
    cert_file: str = ""
    key_file: str = ""
    server_name: str = ""
    verifies: bool = True

    def context(self) -> ssl.SSLContext:
        """Return the context for a connection. Raises InvalidUrl if a file cannot be used."""
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

"""Parts 1 and 5, types and security: their rules as far as they concern a broker."""

from typing import Final

from tests.conformance.catalogue import listed

KEYWORDS: Final = {"1.4": 1, "5.1": 1, "5.2": 3, "5.3": 1, "5.3.1": 3, "5.3.2": 1, "5.3.3": 3}

RULES: Final = listed(
    ("1.4.multiple-mandatory", "MUST", "A field that is mandatory and may have several values has one at least"),
    (
        "5.1.closed-in-order",
        "MUST",
        "When TLS or a login ends, our side of the socket ends first, and the peer's is read to its end",
    ),
    ("5.2.tls-header", "MUST", "Each peer begins TLS with its protocol header"),
    ("5.2.server-name", "SHOULD", "A client names the server it wants; our client does"),
    ("5.2.certificate", "MUST", "A client checks the server's certificate; our client does"),
    ("5.3.sasl-header", "MUST", "Each peer begins SASL with its protocol header"),
    ("5.3.1.frame-bytes-zero", "SHOULD", "Bytes 6 and 7 of our SASL frames are zero, and ignored in those that come"),
    ("5.3.1.doff", "SHOULD", "Our SASL frames have no extended header"),
    ("5.3.1.frame-bytes-said-again", "SHOULD", "The same for every kind of SASL frame that we send"),
    ("5.3.2.roles", "MUST", "The TCP client is the SASL client: a server's frame from it is refused"),
    ("5.3.3.mechanism-unsupported", "MUST", "A mechanism that was not offered ends the connection with the code auth"),
    ("5.3.3.best-mechanism", "MUST", "Our client takes the best mechanism offered that it knows"),
    ("5.3.3.hostname", "SHOULD", "The host name of sasl-init and of open may be the same, or missing"),
)

CLAUSES: Final = listed(
    ("1.6.every-type", "", "Every encoding of every type is understood"),
    ("1.6.malformed", "", "What is no value ends the connection with decode-error"),
    ("5.3.2.plain", "", "SASL PLAIN lets a user in with the right password, and with no other"),
    ("5.3.2.anonymous-off", "", "SASL ANONYMOUS is guest, from this machine and with that password, unless set up"),
    ("5.3.2.without-sasl", "", "Without SASL nobody gets in where nobody may be anonymous"),
)

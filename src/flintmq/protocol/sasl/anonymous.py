"""SASL ANONYMOUS (RFC 4505): a login without credentials. The trace text that a client may send is ignored."""

NAME = "ANONYMOUS"

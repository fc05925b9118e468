"""SASL ANONYMOUS (RFC 4505): anybody, who may leave a trace of who it is; nobody reads that."""

NAME = "ANONYMOUS"

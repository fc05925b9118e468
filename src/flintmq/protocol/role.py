"""The role of an engine on its connection: server or client."""

from enum import Enum


class Role(Enum):
    """The role of an engine: it decides which methods and performatives the engine may receive."""

    SERVER = "server"
    CLIENT = "client"

"""Which end of a connection an engine is."""

from enum import Enum


class Role(Enum):
    SERVER = "server"
    CLIENT = "client"

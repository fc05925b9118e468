"""Clients for AMQP 1.0: blocking (`connect`) and asyncio (`aio.connect`), with messages, outcomes and termini."""

from flintmq.client.amqp10 import aio
from flintmq.client.amqp10.blocking import Batch, Connection, Receiver, Sender, Transaction, connect
from flintmq.client.amqp10.errors import ConnectionEnded, LinkDetached, SendFailed, TransactionFailed
from flintmq.client.amqp10.message import Data, Message, Sequence, Value
from flintmq.client.amqp10.receiver import Delivery
from flintmq.client.amqp10.terms import no_local, selector, stream_offset, stream_time
from flintmq.wire.amqp10.properties import Header, Properties
from flintmq.wire.amqp10.spec import (
    COPY,
    DURABLE_CONFIGURATION,
    DURABLE_NONE,
    DURABLE_UNSETTLED_STATE,
    EXPIRE_CONNECTION_CLOSE,
    EXPIRE_LINK_DETACH,
    EXPIRE_NEVER,
    EXPIRE_SESSION_END,
    MOVE,
)
from flintmq.wire.amqp10.states import Accepted, Error, Modified, Rejected, Released
from flintmq.wire.amqp10.termini import Source, Target

__all__ = [
    "COPY",
    "DURABLE_CONFIGURATION",
    "DURABLE_NONE",
    "DURABLE_UNSETTLED_STATE",
    "EXPIRE_CONNECTION_CLOSE",
    "EXPIRE_LINK_DETACH",
    "EXPIRE_NEVER",
    "EXPIRE_SESSION_END",
    "MOVE",
    "Accepted",
    "Batch",
    "Connection",
    "ConnectionEnded",
    "Data",
    "Delivery",
    "Error",
    "Header",
    "LinkDetached",
    "Message",
    "Modified",
    "Properties",
    "Receiver",
    "Rejected",
    "Released",
    "SendFailed",
    "Sender",
    "Sequence",
    "Source",
    "Target",
    "Transaction",
    "TransactionFailed",
    "Value",
    "aio",
    "connect",
    "no_local",
    "selector",
    "stream_offset",
    "stream_time",
]

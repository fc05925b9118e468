"""Clients for AMQP 0-9-1: blocking (`connect`) and asyncio (`aio.connect`). `flintmq.client.amqp10` has AMQP 1.0."""

from flintmq.base.errors import ConnectionLost, FlintError, LocalProtocolError
from flintmq.client import aio
from flintmq.client.blocking import Batch, Channel, Connection, connect
from flintmq.client.delivery import Delivery, Returned
from flintmq.client.errors import (
    ChannelClosed,
    ConnectFailed,
    ConnectionClosed,
    ConnectTimeout,
    ConsumerCancelled,
    InvalidUrl,
    LoginRefused,
    PublishFailed,
    TimedOut,
)
from flintmq.client.publish import Publish
from flintmq.client.values import LeaseInfo, QueueInfo, StageCommitted, StageInfo, StreamChunk, StreamInfo
from flintmq.wire.amqp091.chunk import ChunkRecord
from flintmq.wire.amqp091.properties import Properties, encode_properties

__all__ = [
    "Batch",
    "Channel",
    "ChannelClosed",
    "ChunkRecord",
    "ConnectFailed",
    "ConnectTimeout",
    "Connection",
    "ConnectionClosed",
    "ConnectionLost",
    "ConsumerCancelled",
    "Delivery",
    "FlintError",
    "InvalidUrl",
    "LeaseInfo",
    "LocalProtocolError",
    "LoginRefused",
    "Properties",
    "Publish",
    "PublishFailed",
    "QueueInfo",
    "Returned",
    "StageCommitted",
    "StageInfo",
    "StreamChunk",
    "StreamInfo",
    "TimedOut",
    "aio",
    "connect",
    "encode_properties",
]

"""Facts of AMQP 1.0 as data: descriptors, fields of composite types, error conditions, names.

A composite type is a row: its descriptor code (domain 0), its name, its fields in order as `name:kind`, `!` behind a
mandatory one. The symbolic descriptor of all of them is "amqp:<name>:list". The class of that name has the defaults of
fields (`performatives`, `states`, `termini`, `properties`). Kinds: `symbols` is a symbol with multiple="true"; `fields`
is a map of symbols to anything, `annotations` one of symbols and ulongs; `unsettled` maps delivery tags to delivery
states; `state`, `outcome`, `source`, `target`, `error` are composites; `any` is any value.
"""

from typing import Final

# amqp-1.0 part 2 §2.2, part 5 §5.2.1, §5.3.1: "AMQP", the layer, version 1.0.0.
PROTOCOL_HEADER: Final = b"AMQP\x00\x01\x00\x00"
TLS_HEADER: Final = b"AMQP\x02\x01\x00\x00"
SASL_HEADER: Final = b"AMQP\x03\x01\x00\x00"

OPEN: Final = 0x10
BEGIN: Final = 0x11
ATTACH: Final = 0x12
FLOW: Final = 0x13
TRANSFER: Final = 0x14
DISPOSITION: Final = 0x15
DETACH: Final = 0x16
END: Final = 0x17
CLOSE: Final = 0x18
ERROR: Final = 0x1D
RECEIVED: Final = 0x23
ACCEPTED: Final = 0x24
REJECTED: Final = 0x25
RELEASED: Final = 0x26
MODIFIED: Final = 0x27
SOURCE: Final = 0x28
TARGET: Final = 0x29
DELETE_ON_CLOSE: Final = 0x2B
DELETE_ON_NO_LINKS: Final = 0x2C
DELETE_ON_NO_MESSAGES: Final = 0x2D
DELETE_ON_NO_LINKS_OR_MESSAGES: Final = 0x2E
COORDINATOR: Final = 0x30
DECLARE: Final = 0x31
DISCHARGE: Final = 0x32
DECLARED: Final = 0x33
TRANSACTIONAL_STATE: Final = 0x34
SASL_MECHANISMS: Final = 0x40
SASL_INIT: Final = 0x41
SASL_CHALLENGE: Final = 0x42
SASL_RESPONSE: Final = 0x43
SASL_OUTCOME: Final = 0x44
HEADER: Final = 0x70
DELIVERY_ANNOTATIONS: Final = 0x71
MESSAGE_ANNOTATIONS: Final = 0x72
PROPERTIES: Final = 0x73
APPLICATION_PROPERTIES: Final = 0x74
DATA: Final = 0x75
AMQP_SEQUENCE: Final = 0x76
AMQP_VALUE: Final = 0x77
FOOTER: Final = 0x78

COMPOSITES: Final[tuple[tuple[int, str, str], ...]] = (
    (
        OPEN,
        "open",
        (
            "container-id:string! hostname:string max-frame-size:uint channel-max:ushort idle-time-out:uint"
            " outgoing-locales:symbols incoming-locales:symbols offered-capabilities:symbols"
            " desired-capabilities:symbols properties:fields"
        ),
    ),
    (
        BEGIN,
        "begin",
        (
            "remote-channel:ushort next-outgoing-id:uint! incoming-window:uint! outgoing-window:uint! handle-max:uint"
            " offered-capabilities:symbols desired-capabilities:symbols properties:fields"
        ),
    ),
    (
        ATTACH,
        "attach",
        (
            "name:string! handle:uint! role:boolean! snd-settle-mode:ubyte rcv-settle-mode:ubyte source:source"
            " target:target unsettled:unsettled incomplete-unsettled:boolean initial-delivery-count:uint"
            " max-message-size:ulong offered-capabilities:symbols desired-capabilities:symbols properties:fields"
        ),
    ),
    (
        FLOW,
        "flow",
        (
            "next-incoming-id:uint incoming-window:uint! next-outgoing-id:uint! outgoing-window:uint! handle:uint"
            " delivery-count:uint link-credit:uint available:uint drain:boolean echo:boolean properties:fields"
        ),
    ),
    (
        TRANSFER,
        "transfer",
        (
            "handle:uint! delivery-id:uint delivery-tag:binary message-format:uint settled:boolean more:boolean"
            " rcv-settle-mode:ubyte state:state resume:boolean aborted:boolean batchable:boolean"
        ),
    ),
    (
        DISPOSITION,
        "disposition",
        "role:boolean! first:uint! last:uint settled:boolean state:state batchable:boolean",
    ),
    (DETACH, "detach", "handle:uint! closed:boolean error:error"),
    (END, "end", "error:error"),
    (CLOSE, "close", "error:error"),
    (ERROR, "error", "condition:symbol! description:string info:fields"),
    (RECEIVED, "received", "section-number:uint! section-offset:ulong!"),
    (ACCEPTED, "accepted", ""),
    (REJECTED, "rejected", "error:error"),
    (RELEASED, "released", ""),
    (MODIFIED, "modified", "delivery-failed:boolean undeliverable-here:boolean message-annotations:annotations"),
    (
        SOURCE,
        "source",
        (
            "address:string durable:uint expiry-policy:symbol timeout:uint dynamic:boolean"
            " dynamic-node-properties:fields distribution-mode:symbol filter:fields default-outcome:outcome"
            " outcomes:symbols capabilities:symbols"
        ),
    ),
    (
        TARGET,
        "target",
        (
            "address:string durable:uint expiry-policy:symbol timeout:uint dynamic:boolean"
            " dynamic-node-properties:fields capabilities:symbols"
        ),
    ),
    (DELETE_ON_CLOSE, "delete-on-close", ""),
    (DELETE_ON_NO_LINKS, "delete-on-no-links", ""),
    (DELETE_ON_NO_MESSAGES, "delete-on-no-messages", ""),
    (DELETE_ON_NO_LINKS_OR_MESSAGES, "delete-on-no-links-or-messages", ""),
    (COORDINATOR, "coordinator", "capabilities:symbols"),
    (DECLARE, "declare", "global-id:any"),
    (DISCHARGE, "discharge", "txn-id:binary! fail:boolean"),
    (DECLARED, "declared", "txn-id:binary!"),
    (TRANSACTIONAL_STATE, "transactional-state", "txn-id:binary! outcome:outcome"),
    (SASL_MECHANISMS, "sasl-mechanisms", "sasl-server-mechanisms:symbols!"),
    (SASL_INIT, "sasl-init", "mechanism:symbol! initial-response:binary hostname:string"),
    (SASL_CHALLENGE, "sasl-challenge", "challenge:binary!"),
    (SASL_RESPONSE, "sasl-response", "response:binary!"),
    (SASL_OUTCOME, "sasl-outcome", "code:ubyte! additional-data:binary"),
    (HEADER, "header", "durable:boolean priority:ubyte ttl:uint first-acquirer:boolean delivery-count:uint"),
    (
        PROPERTIES,
        "properties",
        (
            "message-id:message-id user-id:binary to:string subject:string reply-to:string correlation-id:message-id"
            " content-type:symbol content-encoding:symbol absolute-expiry-time:timestamp creation-time:timestamp"
            " group-id:string group-sequence:uint reply-to-group-id:string"
        ),
    ),
)

# Sections that are no composites: code and symbolic descriptor.
SECTIONS: Final[tuple[tuple[int, str], ...]] = (
    (DELIVERY_ANNOTATIONS, "amqp:delivery-annotations:map"),
    (MESSAGE_ANNOTATIONS, "amqp:message-annotations:map"),
    (APPLICATION_PROPERTIES, "amqp:application-properties:map"),
    (DATA, "amqp:data:binary"),
    (AMQP_SEQUENCE, "amqp:amqp-sequence:list"),
    (AMQP_VALUE, "amqp:amqp-value:*"),
    (FOOTER, "amqp:footer:map"),
)

# Symbolic descriptors by code, and codes by symbolic descriptor.
SYMBOLS: Final[dict[int, str]] = {code: f"amqp:{name}:list" for code, name, _ in COMPOSITES} | dict(SECTIONS)
CODES: Final[dict[str, int]] = {symbol: code for code, symbol in SYMBOLS.items()}

# role: the sender of an attach or disposition.
SENDER: Final = False
RECEIVER: Final = True
# sender-settle-mode
SND_UNSETTLED: Final = 0
SND_SETTLED: Final = 1
SND_MIXED: Final = 2
# receiver-settle-mode
RCV_FIRST: Final = 0
RCV_SECOND: Final = 1
# terminus-durability
DURABLE_NONE: Final = 0
DURABLE_CONFIGURATION: Final = 1
DURABLE_UNSETTLED_STATE: Final = 2
# terminus-expiry-policy
EXPIRE_LINK_DETACH: Final = "link-detach"
EXPIRE_SESSION_END: Final = "session-end"
EXPIRE_CONNECTION_CLOSE: Final = "connection-close"
EXPIRE_NEVER: Final = "never"
# std-dist-mode
MOVE: Final = "move"
COPY: Final = "copy"
# sasl-code
SASL_OK: Final = 0
SASL_AUTH: Final = 1
SASL_SYS: Final = 2
SASL_SYS_PERM: Final = 3
SASL_SYS_TEMP: Final = 4
# txn-capability
LOCAL_TRANSACTIONS: Final = "amqp:local-transactions"
DISTRIBUTED_TRANSACTIONS: Final = "amqp:distributed-transactions"
PROMOTABLE_TRANSACTIONS: Final = "amqp:promotable-transactions"
MULTI_TXNS_PER_SSN: Final = "amqp:multi-txns-per-ssn"
MULTI_SSNS_PER_TXN: Final = "amqp:multi-ssns-per-txn"

# amqp-1.0 part 2 §2.8.19: every peer accepts frames of this size. Larger ones may be sent only after open.
MIN_MAX_FRAME_SIZE: Final = 512
UINT_MAX: Final = 0xFFFF_FFFF
USHORT_MAX: Final = 0xFFFF
# The message format that the specification defines (part 3 §3.2.16).
MESSAGE_FORMAT: Final = 0
DEFAULT_PRIORITY: Final = 4

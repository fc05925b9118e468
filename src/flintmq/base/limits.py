"""Every limit has a name, a unit in the name, and its reason above it."""

from typing import Final

# RabbitMQ's default, so that clients tuned for it see the same number in connection.tune.
FRAME_MAX_BYTES: Final = 131_072
# amqp-0-9-1 §4.2.3: both peers must accept frames up to this before tuning is over.
FRAME_MIN_BYTES: Final = 4_096
# What a frame may have before tuning: RabbitMQ's, since tokens and client properties outgrew the minimum.
HANDSHAKE_FRAME_MAX_BYTES: Final = 8_192
# What a frame may have while a login is decided: connection.close fits, and nothing else may come.
LOGIN_FRAME_MAX_BYTES: Final = 512
# A client's message in a login by SCRAM, of which copies are kept: a name of 255 bytes, each escaped, and a nonce.
SCRAM_MESSAGE_MAX_BYTES: Final = 1_024
# Type, channel and size before the payload; the end octet behind it (amqp-0-9-1 §2.3.5).
FRAME_OVERHEAD_BYTES: Final = 8
# The part of a frame that a publisher's content header leaves free. A header cannot be cut in two, and the broker adds
# to it (a stream's offset, why a message was dead-lettered): without room for that, nobody could be sent the message.
HEADER_RESERVE_DIVISOR: Final = 16
# RabbitMQ's default; each open channel costs about 1 KiB, so a connection stays below 2 MiB of them.
CHANNEL_MAX: Final = 2_047
# RabbitMQ's: sessions of an AMQP 1.0 connection, and links of one of them, by the highest number each may have.
SESSION_CHANNEL_MAX: Final = 63
LINK_HANDLE_MAX: Final = 255
# Transfers that a session takes before it is told of more: what is read in one tick are some thousands, and a sender
# that keeps sending must not wait for the end of each.
SESSION_WINDOW_TRANSFERS: Final = 65_536
# The shortest silence that an AMQP 1.0 peer may take for our death: half of it is how often we have to say something.
IDLE_TIMEOUT_MIN_MS: Final = 100
# What a stranger may send ahead while its login is decided: all of a handshake that was pipelined, and little more.
PIPELINED_MAX_BYTES: Final = 8_192
# RabbitMQ's default: dead peers are found in two intervals, and idle links cost one frame a half-minute.
HEARTBEAT_SECONDS: Final = 60
# How long a client may take nothing of what is sent to it, though its heartbeats come: as long as one without any has.
SEND_TIMEOUT_SECONDS: Final = 120
# How long whoever judges others by the time waits for what they sent before: an event loop reads in between, and knows
# no times shorter than a millisecond.
READ_FIRST_SECONDS: Final = 0.005
# File descriptors that sockets may not take: segments, streams and the database open files at any time, and a storage
# that cannot is fenced.
RESERVED_DESCRIPTORS: Final = 256
# RabbitMQ's: from the first byte awaited to connection.open, for everything in between.
HANDSHAKE_SECONDS: Final = 10.0
# How long we wait for close-ok before we hang up.
CLOSE_WAIT_SECONDS: Final = 5.0
# RabbitMQ 4's default: an oversized message is refused when its header arrives.
MESSAGE_MAX_BYTES: Final = 16 * 1024 * 1024
# What the messages that a connection has begun, and not ended, may hold on all its channels: each may be as large as a
# message, and 2,047 channels of those would be 32 GiB.
ASSEMBLY_MAX_BYTES: Final = 64 * 1024 * 1024
# What all messages of the node that have begun, and not ended, may hold: a part of the memory above which publishers
# wait, so that these alone never keep an alarm on. Two of the largest messages fit, however little that is.
ASSEMBLING_DIVISOR: Final = 8
# What came of a frame that is not complete counts there from here on. Less is what any connection costs, and publishers
# of small messages, whose reads end within a frame as often as not, are never made to wait for it.
COUNTED_FRAME_BYTES: Final = 16 * 1024
# Parts of messages on resumable links of a user that nobody is connected to: as much as one connection may begin. All
# users together may have as much as all messages that have begun.
HALVES_USER_MAX_BYTES: Final = ASSEMBLY_MAX_BYTES
# Tables within tables within lists: deeper than any client nests, shallow enough for the C stack.
TABLE_DEPTH_MAX: Final = 64
# Entries of one table or list: a table of empty values costs its sender 2 bytes each and us about 100.
TABLE_ENTRIES_MAX: Final = 4_096
# AMQP 1.0: lists, maps, arrays and descriptions within each other, and descriptors of one value. As above.
VALUE_DEPTH_MAX: Final = 64
# Values within one value or frame that is decoded, all together. Most cost their sender a byte, an array's empty lists
# nothing at all, and us some 70 each and 50 ns: this many are some 20 MB and some tens of milliseconds.
VALUE_COUNT_MAX: Final = 262_144
# A short string's length octet (amqp-0-9-1 §4.2.5.3).
SHORTSTR_MAX_BYTES: Final = 255
# Arguments of a declaration, and what a policy or a parameter says: what a frame holds, which is as much as a client of
# AMQP 0-9-1 can send of it. Definitions stay in memory, and no alarm makes them fewer.
ARGUMENTS_MAX_BYTES: Final = FRAME_MAX_BYTES
# Arguments of something new while an alarm is on: what consumers declare, who are to make room, has some hundred bytes.
ARGUMENTS_IN_ALARM_MAX_BYTES: Final = 1_024
# How much a connection may have waiting for a slow reader before its consumers get no more.
OUTPUT_HIGH_WATER_BYTES: Final = 4 * 1024 * 1024
OUTPUT_LOW_WATER_BYTES: Final = 1024 * 1024
# How much may wait for a reader that asks for more without reading (by returns, or basic.get): above this it is not
# read from. Deliveries alone stay below, so that a client busy sending may leave them for later.
OUTPUT_CHOKE_BYTES: Final = 64 * 1024 * 1024
# What one queue may deliver before others get their turn: a few milliseconds of compiled work, and more than one
# connection can send in a tick, so that a queue whose consumers keep up does not grow.
DISPATCH_BURST_MESSAGES: Final = 16_384
# Names of queues and exchanges that a change of policies is compared with in a tick: some 6 us each, and a few times
# that where they match and the queue gets other arguments.
POLICY_STEP_NAMES: Final = 64
# What is read from one connection before the tick runs. The event loop would read on as long as there is more, and
# what is taken in but not delivered is memory and latency.
TICK_READ_BYTES: Final = 512 * 1024
# What one connection may have done for it before the tick runs, where a few bytes ask for much. A unit is about what it
# takes to put a message on one more queue; all of it is some tens of milliseconds, interpreted some hundreds.
TICK_WORK_UNITS: Final = 65_536
# What one message may cost to find out where it goes, or whom of a queue's consumers it suits: four ticks of a
# connection. Nothing else is done meanwhile.
MESSAGE_WORK_UNITS: Final = 4 * TICK_WORK_UNITS
# What all bindings of an exchange, or all consumers of a queue, may cost a message of the usual size: the other half is
# for long values.
ASKING_WORK_UNITS: Final = MESSAGE_WORK_UNITS // 2
# What dispatches may cost in a tick by asking whom messages suit, beyond the last of them.
DISPATCH_WORK_UNITS: Final = 2 * TICK_WORK_UNITS
# A dead letter, beside the decoding of its headers: they are written anew, and it is routed.
LETTER_WORK_UNITS: Final = 16
# Bytes of headers that are decoded in one unit: a table of small values has four of them there.
DECODED_BYTES_PER_UNIT: Final = 16
# A method other than publish and ack: decoded, looked up, answered. 1,024 of them a tick.
METHOD_WORK_UNITS: Final = 64
# An address that was not published to before, or not since permissions or exchanges changed: looked up, and routed.
ADDRESS_WORK_UNITS: Final = 16
# Bytes of an answer that cost a unit.
ANSWER_BYTES_PER_UNIT: Final = 256
# Entries of a queue that cost a unit where somebody begins to browse it, or to choose from it: each is noted.
BROWSED_ENTRIES_PER_UNIT: Final = 16
# Delivery tags that cost a unit where a method speaks of many, some of which a transaction may have settled already.
UNACKED_TAGS_PER_UNIT: Final = 16
# Consumers that cost a unit where a method makes all of them go on, or asks all of them.
ASKED_CONSUMERS_PER_UNIT: Final = 16
# Journal bytes handed over but not yet synced, above which publishers are no longer read from.
JOURNAL_BACKLOG_HIGH_BYTES: Final = 64 * 1024 * 1024
JOURNAL_BACKLOG_LOW_BYTES: Final = 16 * 1024 * 1024
# RabbitMQ's: the part of the machine's memory above which publishers have to wait.
MEMORY_HIGH_WATERMARK: Final = 0.6
# The part of the machine's memory that packed messages of deep queues may take before they go to the disk.
QUEUE_MEMORY: Final = 0.1
# RabbitMQ's: what must be free for the journal. A disk that is full fences the storage.
DISK_FREE_MIN_BYTES: Final = 50_000_000
# What a queue remembers of messages where its argument does not say how many of them: some 80 MB at worst.
DEDUP_DEFAULT_ENTRIES: Final = 100_000
# What it may be told to remember: some 8 GB, if somebody means it.
DEDUP_MAX_ENTRIES: Final = 10_000_000
# Names under which a stream keeps places of readers: some 10 MB with the longest.
STREAM_READERS_MAX: Final = 10_000
# Ends of links that a virtual host keeps for who comes back: as many as that, each with what is unsettled.
TERMINI_MAX: Final = 10_000
# How many of them are one user's: nobody keeps others from theirs.
TERMINI_USER_MAX: Final = 5_000
# Deliveries that a suspended target may know of when it is attached again: twice the credit of a link, some 20 MB.
TARGET_UNSETTLED_MAX: Final = 65_536
# Names under which the queues of a virtual host are leased: as many as ends of links, and less each.
LEASES_MAX: Final = 10_000
# What one lease.extend takes from a queue, in messages and bytes of bodies: some ten milliseconds of the event loop's
# time. Who wants more calls again.
LEASE_EXTEND_MAX_MESSAGES: Final = 16_384
LEASE_EXTEND_MAX_BYTES: Final = 16 * 1024 * 1024
# How often a lease may be extended before it is settled: each time costs half a KiB until then, some 30 MB.
LEASE_EXTENSIONS_MAX: Final = 65_536
# Transactional ids that a virtual host remembers the last batch of: some 10 MB with the longest.
STAGES_MAX: Final = 10_000
# How many of them are one user's: nobody keeps others from theirs.
STAGES_USER_MAX: Final = 1_000
# Where a user has that many: one that nobody has used for so long while the broker ran is forgotten for a new one. Who
# is away for longer than that has a checkpoint whose last batch may be published again.
STAGE_IDLE_MS: Final = 30 * 24 * 3600 * 1000
# Attempts that a transactional id keeps until their batch is decided: more than the tasks of any batch, repeated ones
# included. Each takes about 1 KiB, and 1 KiB for each queue it published to.
STAGE_ATTEMPTS_MAX: Final = 65_536
# Owners of a transactional id that were taken over, and do not get it back. A note of each commit has them, 39 bytes
# each where they are ids of queries. Somebody who has waited out so many others is not who was given the id by mistake.
STAGE_OWNERS_MAX: Final = 16
# Numbers that a queue reserves for an attempt at once, the first time and at most: a note in the journal for each run,
# so that a million messages take some twenty, and one message no more than one.
STAGE_RUN_MIN: Final = 64
STAGE_RUN_MAX: Final = 65_536
# Messages that are put on their queues, or discarded, in one tick once a batch is decided: some two milliseconds.
STAGE_STEP_MESSAGES: Final = 8_192
# Addresses (exchange, routing key) remembered with their route; a publisher of random keys starts the table anew.
ROUTE_CACHE_ENTRIES: Final = 16_384
# RabbitMQ's: weights say shares, and finer ones than a ten-thousandth say nothing.
HASH_WEIGHT_MAX: Final = 10_000
# Messages an x-recent-history exchange may keep: they are in memory, bodies included, and a new binding gets them all.
RECENT_HISTORY_MAX_MESSAGES: Final = 10_000
# RabbitMQ's longest delay: 2^32 - 1 milliseconds, some 49 days.
DELAY_MAX_MS: Final = 4_294_967_295
# RabbitMQ's longest time to live, and without use: 10 years.
EXPIRY_MAX_MS: Final = 315_360_000_000
# Bytes of messages one transaction may hold back, on its channel and as one record of the journal.
TRANSACTION_MAX_BYTES: Final = 64 * 1024 * 1024
# What a transaction may hold back, however much all of them do: beyond what messages that have begun may hold on the
# node (ASSEMBLING_DIVISOR), larger ones are refused, so that nobody's keep others from small ones.
TRANSACTION_FREE_BYTES: Final = 64 * 1024
# Operations of a transaction: each holds a few objects until the commit, however small its message.
TRANSACTION_MAX_OPERATIONS: Final = 65_536
# Queues that the messages of one transaction may go to, each counted by all of its own: a commit is done in one go, and
# this many take some tenths of a second.
TRANSACTION_MAX_COPIES: Final = 500_000
# Words `#` of a topic binding, neighbours counted once: nobody writes more than three, and each but the first and the
# last makes a part of the pattern be looked for anywhere in the key.
TOPIC_HASHES_MAX: Final = 8
# Words between the first and the last of them: ten thousand of the worst such bindings cost a new key tens of
# milliseconds, and a key that was used before nothing.
TOPIC_INNER_WORDS_MAX: Final = 32
# Characters of a selector: parsing one that long takes some tens of milliseconds, and all others wait.
SELECTOR_MAX_CHARACTERS: Final = 2_048
# What each of them costs who sends it.
SELECTOR_UNITS_PER_CHARACTER: Final = 32
# Expressions of a selector within each other: more than anybody writes, and shallow enough for the C stack.
SELECTOR_DEPTH_MAX: Final = 64
# filtex 1.0 §7.1 asks for limits of what an SQL expression may be; these are RabbitMQ's.
SQL_MAX_CHARACTERS: Final = 4_096
SQL_MAX_TOKENS: Final = 200
# Characters of all selectors and SQL expressions that one source names: two of the longest, and as much work as one
# message may be.
FILTERS_MAX_CHARACTERS: Final = 2 * SQL_MAX_CHARACTERS
# RabbitMQ's: fields that a property filter may compare.
PROPERTY_FILTER_MAX_FIELDS: Final = 16
# Data sections of a body that are joined for consumers of AMQP 0-9-1: nobody sends that many, and 16 MiB of empty ones
# would be three million. A body of more goes out encoded.
DATA_SECTIONS_MAX: Final = 4_096
# Selectors kept parsed: clients come back with the ones they had. A long one takes some hundred KiB.
SELECTOR_CACHE_ENTRIES: Final = 256
# A file of the journal, or of a stream: large enough that making and removing them is rare, small enough that one live
# message does not hold back much. Below 64 KiB a journal would do little else; above 4 GiB nothing is won.
SEGMENT_BYTES: Final = 64 * 1024 * 1024
SEGMENT_MIN_BYTES: Final = 64 * 1024
SEGMENT_MAX_BYTES: Final = 4 * 1024 * 1024 * 1024
# What the HTTP API takes of a stranger: first line and headers of a request are a few hundred bytes, of browsers with
# many cookies a few thousand.
HTTP_HEAD_MAX_BYTES: Final = 16 * 1024
# For them, and for a TLS handshake, as long as AMQP has for its own.
HTTP_HEAD_SECONDS: Final = 10.0
# Between the requests of one connection. Dashboards ask every five seconds, Prometheus every fifteen.
HTTP_IDLE_SECONDS: Final = 75
# For who has not logged in: long enough for all that a page loads.
HTTP_STRANGER_IDLE_SECONDS: Final = 10
# A client takes some of its answer, which waits in memory, in this time; the slowest has two kilobytes per second.
HTTP_UNREAD_SECONDS: Final = 30.0
# Answers about all there is, of one kind, that are made and read at a time: some ten megabytes each, on a busy broker.
HTTP_WHOLE_MAX: Final = 8
# Of these, one user's, or, where no login is asked for, one address's: whoever reads slowly leaves some to others.
HTTP_WHOLE_EACH_MAX: Final = 2
# Others wait for as long as most clients do.
HTTP_WHOLE_WAIT_SECONDS: Final = 30.0
# A client has read any answer by then: ten megabytes take it less than a megabit per second.
HTTP_ANSWER_SECONDS: Final = 120.0
# Sockets of the API: people, dashboards and scripts. Each is a file descriptor that clients of AMQP do not get.
HTTP_CONNECTIONS_MAX: Final = 256
# Of these, one user's who has logged in: a browser opens six, a script with a pool some tens.
HTTP_USER_CONNECTIONS_MAX: Final = 64
# And one address's, whichever users they are, but for this machine's and those of proxies, which many users share.
HTTP_ADDRESS_CONNECTIONS_MAX: Final = 128
# What others cannot take from administrators, those who monitor, and health checks.
HTTP_RESERVED_CONNECTIONS: Final = 32
# Requests on one connection that were sent before the one in front was answered; browsers send none.
HTTP_PIPELINED_MAX: Final = 16
# A body is one piece of memory, and who sends it has logged in. Definitions of 50,000 queues are about 10 MiB.
HTTP_BODY_MAX_BYTES: Final = 20 * 1024 * 1024
# For all of it: the slowest that comes through has five megabits per second.
HTTP_BODY_SECONDS: Final = 30.0
# Of a stranger it is a user's name and password.
HTTP_STRANGER_BODY_SECONDS: Final = 5.0
# What the check of a password may take whose hash came from elsewhere: as much as any of the usual parameters ask for
# (RFC 9106 §4 and OWASP's), some tenths of a second. There is one thread for all logins.
PASSWORD_HASH_MEMORY_MAX_KIB: Final = 64 * 1024
PASSWORD_HASH_PASSES_MAX: Final = 8
PASSWORD_HASH_LANES_MAX: Final = 4
# A digest by SHA-512 with its salt has 92, and one by argon2id a hundred.
PASSWORD_HASH_MAX_CHARACTERS: Final = 512

"""Every limit has a name, a unit in the name, and its reason above it."""

from typing import Final

# RabbitMQ's default, so that clients see the usual number in connection.tune.
FRAME_MAX_BYTES: Final = 131_072
# amqp-0-9-1 §4.2.3: both peers must accept frames up to this before tuning is over.
FRAME_MIN_BYTES: Final = 4_096
# The maximum frame before tuning: RabbitMQ's value, because tokens and client properties outgrew the minimum.
HANDSHAKE_FRAME_MAX_BYTES: Final = 8_192
# The maximum frame while a login is being checked: connection.close fits, and nothing else is allowed.
LOGIN_FRAME_MAX_BYTES: Final = 512
# A client's SCRAM message, of which copies are stored: an escaped name of 255 bytes, and a nonce.
SCRAM_MESSAGE_MAX_BYTES: Final = 1_024
# Type, channel and size before the payload; the end octet behind it (amqp-0-9-1 §2.3.5).
FRAME_OVERHEAD_BYTES: Final = 8
# The part of a frame that must stay free in a publisher's content header. A header cannot be split, and the broker adds
# to it (a stream offset, the reason for dead-lettering): without free space the message could not be delivered.
HEADER_RESERVE_DIVISOR: Final = 16
# RabbitMQ's default; each open channel costs about 1 KiB, so a connection stays below 2 MiB of them.
CHANNEL_MAX: Final = 2_047
# RabbitMQ's limits: the highest numbers of a session of an AMQP 1.0 connection, and of a link of a session.
SESSION_CHANNEL_MAX: Final = 63
LINK_HANDLE_MAX: Final = 255
# The incoming window of a session. One tick reads some thousands of transfers, and a sender must not wait at the end of
# each tick.
SESSION_WINDOW_TRANSFERS: Final = 65_536
# The shortest idle timeout that an AMQP 1.0 peer may request: the broker must send a frame twice in that time.
IDLE_TIMEOUT_MIN_MS: Final = 100
# The bytes that an unauthenticated client may send while its login is being checked: a pipelined handshake, and little
# more.
PIPELINED_MAX_BYTES: Final = 8_192
# RabbitMQ's default: dead peers are detected within two intervals, and an idle connection costs one frame per half
# minute.
HEARTBEAT_SECONDS: Final = 60
# A client that reads nothing for this time is disconnected, even if its heartbeats come: as a client without heartbeats
# is.
SEND_TIMEOUT_SECONDS: Final = 120
# Before a timeout is applied, the event loop gets this time to read what the peer has already sent; it knows no times
# shorter than a millisecond.
READ_FIRST_SECONDS: Final = 0.005
# File descriptors that are reserved for the storage: segments, streams and the database open files at any time, and a
# storage that cannot is fenced.
RESERVED_DESCRIPTORS: Final = 256
# Connections of other nodes that have not yet proved that they know the secret of the cluster. Each has a thread.
CLUSTER_UNAUTHENTICATED_MAX: Final = 32
# RabbitMQ's limit for the whole handshake, from the first byte to connection.open.
HANDSHAKE_SECONDS: Final = 10.0
# The broker waits this long for close-ok before it closes the socket.
CLOSE_WAIT_SECONDS: Final = 5.0
# RabbitMQ 4's default: an oversized message is refused when its header arrives.
MESSAGE_MAX_BYTES: Final = 16 * 1024 * 1024
# The memory for incomplete messages on all channels of a connection. Each may be as large as a message: on 2,047
# channels that would be 32 GiB.
ASSEMBLY_MAX_BYTES: Final = 64 * 1024 * 1024
# The memory for all incomplete messages of the node, as a divisor of the memory alarm's threshold, so that these alone
# never cause an alarm. Two of the largest messages always fit.
ASSEMBLING_DIVISOR: Final = 8
# An incomplete frame counts for that memory from this size on. Smaller parts are normal for any connection, so
# publishers of small messages never wait for it.
COUNTED_FRAME_BYTES: Final = 16 * 1024
# The memory for partial messages on a user's detached resumable links: as much as for one connection. For all users
# together the limit is that for all incomplete messages.
PARTIAL_MESSAGES_USER_MAX_BYTES: Final = ASSEMBLY_MAX_BYTES
# The nesting of tables and lists: deeper than any client nests, and shallow enough for the C stack.
TABLE_DEPTH_MAX: Final = 64
# The entries of one table or list: an empty value costs its sender 2 bytes, and the broker about 100.
TABLE_ENTRIES_MAX: Final = 4_096
# AMQP 1.0: the nesting of lists, maps, arrays and described values, for the same reason.
VALUE_DEPTH_MAX: Final = 64
# AMQP 1.0: the number of values in one decoded value or frame. Most cost their sender one byte (empty lists in an
# array: none), and the broker some 70 bytes and 50 ns. This many are some 20 MB and tens of milliseconds.
VALUE_COUNT_MAX: Final = 262_144
# A short string's length octet (amqp-0-9-1 §4.2.5.3).
SHORTSTR_MAX_BYTES: Final = 255
# The arguments of a declaration, a policy or a parameter: a frame's size, the most that an AMQP 0-9-1 client can send.
# Definitions stay in memory, and no alarm reduces them.
ARGUMENTS_MAX_BYTES: Final = FRAME_MAX_BYTES
# The arguments of a new object while an alarm is on. Consumers, which free memory, declare objects with some hundred
# bytes.
ARGUMENTS_IN_ALARM_MAX_BYTES: Final = 1_024
# At the high mark of unsent output, a connection's consumers get no more messages, until it falls to the low mark.
OUTPUT_HIGH_WATER_BYTES: Final = 4 * 1024 * 1024
OUTPUT_LOW_WATER_BYTES: Final = 1024 * 1024
# Above this unsent output, a connection is not read from: it requests more data (returns, basic.get) without reading.
# Deliveries alone stay below, so that a client that is busy sending can read them later.
OUTPUT_BACK_PRESSURE_BYTES: Final = 64 * 1024 * 1024
# One queue may deliver so many messages before other queues get their turn: a few milliseconds of compiled work, and
# more than one connection can send in a tick, so that a queue whose consumers keep up does not grow.
DISPATCH_BURST_MESSAGES: Final = 16_384
# The work per tick for dead letters: 128 of them with small headers, some two milliseconds, because the tick may also
# expire messages. Nobody is served meanwhile, and the others follow in the next tick. It is as much again for those
# that a full queue had refused, so that neither has to wait for the other.
DEAD_LETTER_STEP_UNITS: Final = 2_048
# The work per tick that is done in steps: two to three milliseconds.
STEP_UNITS: Final = 2_048
# The work of deleting a queue, without its messages and bindings: 50 µs if its definition has to be deleted.
DELETED_QUEUE_UNITS: Final = 32
# The work of comparing the name of a queue or exchange with changed policies: some 6 µs, and several times that if the
# arguments of the queue change.
POLICY_NAME_UNITS: Final = 32
# The work of dropping a message because a policy made its queue shorter: 2 µs if it is dead-lettered.
TRIMMED_MESSAGE_UNITS: Final = 2
# The messages that expire per tick, on all queues together: some three milliseconds. Those that are dead-lettered count
# twice, because the tick also publishes dead letters.
EXPIRY_STEP_MESSAGES: Final = 1_024
# The work of removing a message that has expired; as much again if it is dead-lettered. A dispatch, a basic.get or a
# lease removes STEP_UNITS of it at most, before it goes on in the next tick.
EXPIRED_MESSAGE_UNITS: Final = 2
# The held messages of a queue that are due in a tick: those of a delayed exchange take ten microseconds and more each.
DUE_STEP_MESSAGES: Final = 256
# The bytes that are read from one connection before the tick runs. The event loop would continue to read as long as
# there is data, and data that is read but not delivered costs memory and latency.
TICK_READ_BYTES: Final = 512 * 1024
# The time for which a tick takes in what several busy clients send, before queues are dispatched for twice that time.
# Each client waits about this long for the others. Each client that is read adds to it, because longer ticks read more
# of each, up to the most. The time is shorter while a client with less than its share publishes to an empty queue
# with consumers, and longer if most bytes are for the journal: durable messages wait for the disk anyway.
INTAKE_SECONDS: Final = 0.000_25
MODEST_INTAKE_SECONDS: Final = 0.000_08
CLIENT_INTAKE_SECONDS: Final = 0.000_015
INTAKE_MAX_SECONDS: Final = 0.001
# The least of these times: while queues are behind, they are at most twice as long as the last dispatch.
INTAKE_MIN_SECONDS: Final = 0.000_05
# I/O workers: what a client may have sent that the broker has not handled. Before its login, each read waits until the
# one before is handled, as without workers.
LINK_FIRST_BYTES: Final = 16 * 1024
# The same after the login; and in the other direction, what was sent to a client and is not reported as taken by the
# kernel. The broker holds so much of each client that it does not read, a worker of each that reads nothing.
LINK_NARROW_BYTES: Final = 32 * 1024
# The same for a client that transfers in bulk: a worker and the broker work at the same time, and while one waits for a
# processor the other goes on.
LINK_WIDE_BYTES: Final = 512 * 1024
# The same in the other direction. Without a worker, the kernel's buffer is as large, and the broker can fill it while
# other processes have the processor.
LINK_UNSENT_BYTES: Final = 2 * 1024 * 1024
# What all clients of a worker together may have beyond the narrow window, in each direction.
LINK_SHARED_BYTES: Final = 32 * 1024 * 1024
# A worker reports what it has sent to a client from this number of bytes on, because a report for each delivery would
# cost as much as the delivery.
LINK_REPORT_BYTES: Final = 16 * 1024
# The same as READ_FIRST_SECONDS for clients of I/O workers: the machine may have stood still, and a worker has to get a
# processor before it can read what waits for the broker.
LINK_READ_FIRST_SECONDS: Final = 0.25
# All PEM files of the broker's certificates and authorities: the system's list of authorities has 220 KB. A note to an
# I/O worker contains them.
PEM_MAX_BYTES: Final = 8 * 1024 * 1024
# The number of I/O workers: each is a process with its own event loop, and one broker cannot keep more of them busy.
IO_WORKERS_MAX: Final = 64
# The least that a tick takes in of one connection, if there is as much: reading less costs more than handling it.
# Connections have turns if the time does not suffice for all of them.
SHARE_MIN_BYTES: Final = 16 * 1024
# The messages that a queue delivers at a time while clients wait for each other, before the next queue has its turn.
DISPATCH_TURN_MESSAGES: Final = 256
# A queue with so many messages, whose consumers take some, is behind: publishers are read less.
BEHIND_MESSAGES: Final = 8_192
# The ready messages of a queue above which its publishers outrun its consumers. From then on they may publish as many
# messages as the consumers take, and at least so many per second on the whole node: several times what RabbitMQ takes.
CREDIT_BACKLOG_MESSAGES: Final = 262_144
CREDIT_MESSAGES_PER_SECOND: Final = 300_000
# A queue whose consumers took nothing for this time is not outrun: publishers do not wait for slow work.
CREDIT_MS: Final = 100
# The work that one connection may cause before the tick runs, because a few bytes can cause much work. A unit is about
# the cost of adding a message to one more queue. All units together take some tens of milliseconds compiled, some
# hundreds interpreted.
TICK_WORK_UNITS: Final = 65_536
# The same while clients wait for each other: about a millisecond compiled.
CONTENDED_WORK_UNITS: Final = 2_048
# The work that one message may cause to find its queues, or the matching consumers of a queue: four ticks of a
# connection. No other work is done meanwhile.
MESSAGE_WORK_UNITS: Final = 4 * TICK_WORK_UNITS
# The work that all bindings of an exchange, or all consumers of a queue, may cause for a message of usual size; the
# other half is for long values.
ASKING_WORK_UNITS: Final = MESSAGE_WORK_UNITS // 2
# The work per tick for matching messages with consumers' selectors, beyond the last dispatch.
DISPATCH_WORK_UNITS: Final = 2 * TICK_WORK_UNITS
# The work for a dead letter without decoding its headers: encoding new headers, and routing.
DEAD_LETTER_WORK_UNITS: Final = 16
# The bytes of headers that are decoded per unit; a table of small values has four values in them.
DECODED_BYTES_PER_UNIT: Final = 16
# The work for a method other than publish and ack: decoding, lookup, answer. 1,024 of them fit in a tick.
METHOD_WORK_UNITS: Final = 64
# The work for a channel that is closed for a fault of its client, most of which is the line in the log: 128 of them fit
# in a tick, and take three milliseconds.
FAILED_CHANNEL_UNITS: Final = 512
# The work for an address without a valid cached route: lookup and routing.
ADDRESS_WORK_UNITS: Final = 16
# The bytes of an answer per unit.
ANSWER_BYTES_PER_UNIT: Final = 256
# The entries of a queue per unit when somebody begins to browse it or to move messages: each entry is recorded.
BROWSED_ENTRIES_PER_UNIT: Final = 16
# The delivery tags per unit when a method names many, some of which a transaction may have settled already.
UNACKED_TAGS_PER_UNIT: Final = 16
# The consumers per unit when a method resumes or checks all of them.
ASKED_CONSUMERS_PER_UNIT: Final = 16
# Above the high mark of journal bytes that are not synced, publishers are not read from, until it falls to the low
# mark.
JOURNAL_BACKLOG_HIGH_BYTES: Final = 64 * 1024 * 1024
JOURNAL_BACKLOG_LOW_BYTES: Final = 16 * 1024 * 1024
# RabbitMQ's default: the share of the machine's memory above which the memory alarm blocks publishers.
MEMORY_HIGH_WATERMARK: Final = 0.6
# The share of the machine's memory that packed messages of deep queues may use before they are written to the disk.
QUEUE_MEMORY: Final = 0.1
# RabbitMQ's default: below this free disk space, the disk alarm blocks publishers.
DISK_FREE_MIN_BYTES: Final = 50_000_000
# The default number of remembered ids for deduplication: some 80 MB at worst.
DEDUP_DEFAULT_ENTRIES: Final = 100_000
# The highest configurable number: some 8 GB.
DEDUP_MAX_ENTRIES: Final = 10_000_000
# The stored reader offsets of a stream: some 10 MB with the longest names.
STREAM_READERS_MAX: Final = 10_000
# The suspended link termini of a virtual host, each with its unsettled deliveries.
TERMINI_MAX: Final = 10_000
# The share of one user in this limit, so that no user can exhaust it for others.
TERMINI_USER_MAX: Final = 5_000
# The unsettled deliveries of a suspended target when it is attached again: twice the credit of a link, some 20 MB.
TARGET_UNSETTLED_MAX: Final = 65_536
# The lease names in a virtual host: as many as termini, with less memory each.
LEASES_MAX: Final = 10_000
# One lease.extend takes at most so many messages and bytes of bodies: some ten milliseconds of the event loop. A client
# that wants more calls it again.
LEASE_EXTEND_MAX_MESSAGES: Final = 16_384
LEASE_EXTEND_MAX_BYTES: Final = 16 * 1024 * 1024
# The extensions of a lease before it is settled: each costs half a KiB until then, some 30 MB together.
LEASE_EXTENSIONS_MAX: Final = 65_536
# The transactional ids whose last batch a virtual host remembers: some 10 MB with the longest.
STAGES_MAX: Final = 10_000
# The share of one user in this limit, so that no user can exhaust it for others.
STAGES_USER_MAX: Final = 1_000
# At the limit of a user, an id that was unused for this time while the broker ran is dropped for a new one. A client
# that is away for longer may publish its last batch again.
STAGE_IDLE_MS: Final = 30 * 24 * 3600 * 1000
# The attempts that a transactional id keeps until their batch is decided: more than the tasks of any batch, including
# repeated ones. Each takes about 1 KiB, and 1 KiB per queue.
STAGE_ATTEMPTS_MAX: Final = 65_536
# The fenced owners of a transactional id, which never get it back. A note of each commit has them, 39 bytes each for
# ids of queries.
STAGE_OWNERS_MAX: Final = 16
# The sequence numbers that a queue reserves for an attempt at once, at first and at most: the journal gets a note per
# reservation, so a million messages need some twenty, and one message needs one.
STAGE_RUN_MIN: Final = 64
STAGE_RUN_MAX: Final = 65_536
# The staged messages that are committed or discarded per tick once a batch is decided: some two milliseconds.
STAGE_STEP_MESSAGES: Final = 8_192
# The cached routes by address (exchange, routing key); a publisher of random keys clears the cache.
ROUTE_CACHE_ENTRIES: Final = 16_384
# RabbitMQ's limit: weights are shares, and a finer share than a ten-thousandth is meaningless.
HASH_WEIGHT_MAX: Final = 10_000
# The messages that an x-recent-history exchange may keep: they are in memory with their bodies, and a new binding gets
# them all.
RECENT_HISTORY_MAX_MESSAGES: Final = 10_000
# RabbitMQ's longest delay: 2^32 - 1 milliseconds, some 49 days.
DELAY_MAX_MS: Final = 4_294_967_295
# RabbitMQ's longest time to live, and without use: 10 years.
EXPIRY_MAX_MS: Final = 315_360_000_000
# The bytes of messages in one transaction, on its channel and as one record of the journal.
TRANSACTION_MAX_BYTES: Final = 64 * 1024 * 1024
# A transaction may always hold this many bytes. Beyond the node's limit for incomplete messages (ASSEMBLING_DIVISOR),
# larger transactions are refused, so that small ones of other users still work.
TRANSACTION_FREE_BYTES: Final = 64 * 1024
# The operations of a transaction: each holds a few objects until the commit, however small its message.
TRANSACTION_MAX_OPERATIONS: Final = 65_536
# The sum over a transaction's messages of their numbers of queues. The commit is one step of the event loop; this many
# take some tenths of a second.
TRANSACTION_MAX_COPIES: Final = 500_000
# The words `#` of a topic binding, adjacent ones counted once: nobody uses more than three. Each but the first and the
# last is searched for anywhere in the key.
TOPIC_HASHES_MAX: Final = 8
# The words between the first and the last `#`: ten thousand of the worst such bindings cost a new key tens of
# milliseconds, and a cached key nothing.
TOPIC_INNER_WORDS_MAX: Final = 32
# The characters of a selector: parsing the longest takes some tens of milliseconds, during which no other work is done.
SELECTOR_MAX_CHARACTERS: Final = 2_048
# The work per character of a selector, paid by its sender.
SELECTOR_UNITS_PER_CHARACTER: Final = 32
# The nesting of a selector's expressions: deeper than anybody writes, and shallow enough for the C stack.
SELECTOR_DEPTH_MAX: Final = 64
# filtex 1.0 §7.1 requires limits for SQL expressions; these are RabbitMQ's.
SQL_MAX_CHARACTERS: Final = 4_096
SQL_MAX_TOKENS: Final = 200
# The characters of all selectors and SQL expressions of one source: two of the longest, as much work as one message may
# cause.
FILTERS_MAX_CHARACTERS: Final = 2 * SQL_MAX_CHARACTERS
# RabbitMQ's limit for the fields of a property filter.
PROPERTY_FILTER_MAX_FIELDS: Final = 16
# The data sections of a body that are joined for AMQP 0-9-1 consumers. Nobody sends that many; 16 MiB of empty ones
# would be three million. A body with more is delivered encoded.
DATA_SECTIONS_MAX: Final = 4_096
# The cached parsed selectors: clients reconnect with the same ones. A long one takes some hundred KiB.
SELECTOR_CACHE_ENTRIES: Final = 256
# The size of a segment of the journal or of a stream: large enough that creating and removing files is rare, small
# enough that one live message retains little. Below 64 KiB, the journal would do little else; above 4 GiB there is no
# benefit.
SEGMENT_BYTES: Final = 64 * 1024 * 1024
SEGMENT_MIN_BYTES: Final = 64 * 1024
SEGMENT_MAX_BYTES: Final = 4 * 1024 * 1024 * 1024
# The first line and headers of an HTTP request, before a login: usually a few hundred bytes, a few thousand from
# browsers with many cookies.
HTTP_HEAD_MAX_BYTES: Final = 16 * 1024
# The time for the head of a request, and for a TLS handshake: as for an AMQP handshake.
HTTP_HEAD_SECONDS: Final = 10.0
# The idle time between two requests of a connection. Dashboards ask every five seconds, Prometheus every fifteen.
HTTP_IDLE_SECONDS: Final = 75
# The idle time before a login: long enough for everything that a page loads.
HTTP_UNAUTHENTICATED_IDLE_SECONDS: Final = 10
# A client must read a part of its answer within this time, because it waits in memory: two kilobytes per second are
# enough.
HTTP_UNREAD_SECONDS: Final = 30.0
# The concurrent large answers of one group: some ten megabytes each on a busy broker.
HTTP_WHOLE_MAX: Final = 8
# The concurrent large answers of one user, or of one address without a login: a slow reader leaves the others to other
# users.
HTTP_WHOLE_EACH_MAX: Final = 2
# Further requests for large answers wait this long, as long as most clients do.
HTTP_WHOLE_WAIT_SECONDS: Final = 30.0
# A client must have read the whole answer within this time: ten megabytes need less than a megabit per second.
HTTP_ANSWER_SECONDS: Final = 120.0
# The connections of the HTTP API, from people, dashboards and scripts. Each uses a file descriptor that AMQP clients
# cannot use.
HTTP_CONNECTIONS_MAX: Final = 256
# The HTTP connections of one user: a browser opens six, a script with a pool some tens.
HTTP_USER_CONNECTIONS_MAX: Final = 64
# The HTTP connections of one address, except this machine's and those of proxies, which many users share.
HTTP_ADDRESS_CONNECTIONS_MAX: Final = 128
# The HTTP connections reserved for administrators, users with the tag monitoring, and health checks.
HTTP_RESERVED_CONNECTIONS: Final = 32
# The pipelined requests of one connection; browsers send none.
HTTP_PIPELINED_MAX: Final = 16
# The body of a request, which is in memory, and whose sender has logged in. Definitions of 50,000 queues are about 10
# MiB.
HTTP_BODY_MAX_BYTES: Final = 20 * 1024 * 1024
# The time for a whole body: the largest needs five megabits per second.
HTTP_BODY_SECONDS: Final = 30.0
# The time for a body before a login, which is a user's name and password.
HTTP_LOGIN_BODY_SECONDS: Final = 5.0
# The cost of checking an imported password hash: as high as usual parameters require (RFC 9106 §4 and OWASP's), some
# tenths of a second. One thread checks all logins.
PASSWORD_HASH_MEMORY_MAX_KIB: Final = 64 * 1024
PASSWORD_HASH_PASSES_MAX: Final = 8
PASSWORD_HASH_LANES_MAX: Final = 4
# The characters of a password hash: SHA-512 with salt has 92, argon2id about a hundred.
PASSWORD_HASH_MAX_CHARACTERS: Final = 512

"""A broken rule for each row of docs/conformance-amqp091.md."""

from typing import Final

from tests.conformance.mutations.mutation import Mutation, listed

MUTATIONS: Final[tuple[Mutation, ...]] = listed(
    (
        "delivery-tag.channel-local",
        "gateway/amqp091/unacked.py",
        """            return self._take_front(count)
        if tag < self._first or tag >= self._first + count:
            raise PreconditionFailed(f"unknown delivery tag {int(tag) & UINT64_MAX}")
""",
        """            return self._take_front(count)
        if tag < self._first or tag >= self._first + count:
            return []
""",
    ),
    ("delivery-tag.non-zero", "gateway/amqp091/unacked.py", "self._first: i64 = 1", "self._first: i64 = 0"),
    (
        "redelivered.implementation",
        "broker/queue/entries.py",
        "            entry.redelivered = True\n            if failures > 0:",
        "            if failures > 0:",
    ),
    (
        "redelivered.hinting",
        "client/delivery.py",
        "        self.redelivered = redelivered",
        "        self.redelivered = False",
    ),
    (
        "connection.start.protocol-name",
        "protocol/sniff.py",
        "    if not data.startswith(_AMQP[: len(data)]):\n        return Protocol.AMQP_091",
        "    if not data.startswith(_AMQP[: len(data)]):\n        return Protocol.AMQP_10",
    ),
    (
        "connection.start.server-support",
        "protocol/amqp091/connection.py",
        "        self.output.writer.write(PROTOCOL_HEADER)\n        self.output.touch()\n        self._finish(FrameFault(",
        "        self._finish(FrameFault(",
    ),
    (
        "connection.start.client-support",
        "protocol/amqp091/connection.py",
        'elif self.state is State.START and data[pos : pos + 4] == b"AMQP":\n            raise NotImplementedHere(',
        'elif self.state is State.START and data[pos : pos + 4] == b"AMQP":\n            self._send(ConnectionCloseOk())\n            raise NotImplementedHere(',
    ),
    (
        "connection.start.server-properties.required-fields",
        "app/server_properties.py",
        '            "copyright": "The FlintMQ authors",\n',
        "",
    ),
    (
        "connection.start.locales.required-support",
        "protocol/amqp091/connection.py",
        'locales=b"en_US"',
        'locales=b"de_DE"',
    ),
    (
        "connection.start-ok.client-properties.required-fields",
        "client/handshake.py",
        '        "copyright": "The FlintMQ authors",\n',
        "",
    ),
    (
        "connection.start-ok.mechanism.security",
        "protocol/amqp091/connection.py",
        "        if login.mechanism not in offered:",
        "        if not offered:",
    ),
    ("connection.start-ok.locale", "protocol/amqp091/connection.py", 'locale: str = "en_US"', 'locale: str = "fr_FR"'),
    (
        "connection.start-ok.mechanism.validity",
        "gateway/amqp091/connection.py",
        "    def on_login(self, mechanism: str, response: bytes, client_properties: Table) -> None:\n",
        "    def on_login(self, mechanism: str, response: bytes, client_properties: Table) -> None:\n"
        '        if mechanism == "TELEPATHY":\n            self.engine.accept_login()\n            return\n',
    ),
    (
        "connection.tune.frame-max.minimum",
        "protocol/amqp091/connection.py",
        "self._payload_max: i64 = HANDSHAKE_FRAME_MAX_BYTES - FRAME_OVERHEAD_BYTES",
        "self._payload_max: i64 = FRAME_MIN_BYTES - FRAME_OVERHEAD_BYTES - 1",
    ),
    (
        "connection.tune-ok.channel-max.upper-limit",
        "protocol/amqp091/connection.py",
        "        if wanted.channel_max > offer.channel_max:",
        "        if wanted.channel_max > offer.channel_max + 1:",
    ),
    (
        "connection.tune-ok.frame-max.minimum",
        "protocol/amqp091/connection.py",
        "        if frame_max != 0 and frame_max < FRAME_MIN_BYTES:",
        "        if frame_max != 0 and frame_max < FRAME_MIN_BYTES - 1:",
    ),
    (
        "connection.tune-ok.frame-max.upper-limit",
        "protocol/amqp091/connection.py",
        "        if wanted.frame_max > offer.frame_max:",
        "        if wanted.frame_max > offer.frame_max + 1:",
    ),
    (
        "connection.open.virtual-host.separation",
        "gateway/amqp091/connection.py",
        "        vhost = broker.vhosts.get(virtual_host)\n",
        '        vhost = broker.vhosts.get("/")\n',
    ),
    (
        "connection.open.virtual-host.security",
        "gateway/amqp091/connection.py",
        "        self.access = enter(user, vhost, self.disconnect)",
        '        self.access = enter(broker.users["guest"], vhost, self.disconnect)',
    ),
    (
        "connection.close.stability",
        "protocol/amqp091/states.py",
        "State.CLOSING: {methods.CONNECTION_CLOSE: State.CLOSED, methods.CONNECTION_CLOSE_OK: State.CLOSED},\n}\n_CLIENT",
        "State.CLOSING: {methods.CONNECTION_CLOSE_OK: State.CLOSED},\n}\n_CLIENT",
    ),
    (
        "connection.close-ok.reporting",
        "server/peer.py",
        "        if reason is None or is_clean(reason):",
        "        if True:",
    ),
    (
        "channel.open.state",
        "protocol/amqp091/connection.py",
        "self._is_server and channel.state == UNUSED:",
        "self._is_server:",
    ),
    (
        "channel.flow.initial-state",
        "gateway/amqp091/deliveries.py",
        "        self.is_open = self.is_flowing and self._waiting_gets == 0",
        "        self.is_open = self._waiting_gets == 0",
    ),
    (
        "channel.flow.bidirectional",
        "gateway/amqp091/deliveries.py",
        "        self.is_flowing = active\n        self._open_or_not()",
        "        self.is_flowing = active",
    ),
    (
        "channel.flow.throttling",
        "gateway/amqp091/connection.py",
        "            self.channels[channel].stop_flow()",
        "            pass",
    ),
    (
        "channel.flow.expected-behaviour",
        "protocol/amqp091/connection.py",
        "                if self.holds_publishes and method == methods.BASIC_PUBLISH and channel.state == OPEN:\n"
        "                    self._needed = 0\n                    self._hold(number)\n                    return start - 7\n",
        "                if self.holds_publishes and method == methods.BASIC_PUBLISH and channel.state == OPEN:\n"
        "                    self._hold(number)\n",
    ),
    (
        "channel.close.stability",
        "protocol/amqp091/states.py",
        "_WHILE_CLOSING: Final = {methods.CHANNEL_CLOSE: CLOSING, methods.CHANNEL_CLOSE_OK: UNUSED}",
        "_WHILE_CLOSING: Final = {methods.CHANNEL_CLOSE_OK: UNUSED}",
    ),
    (
        "channel.close-ok.reporting",
        "server/host.py",
        '        log.warning("channel closed", peer=peer, user=user, channel=channel, reason=error.reply_text)',
        "        pass",
    ),
    (
        "exchange.required-types",
        "broker/exchange/fanout.py",
        "        return list(self._all)",
        "        return [each for each in self._all if each.routing_key in keys]",
    ),
    (
        "exchange.recommended-types",
        "broker/exchange/topic.py",
        "        if node.star is not None:\n            following.append(node.star)\n",
        "",
    ),
    ("exchange.required-instances", "broker/exchange/registry.py", '    ("amq.headers", "headers"),\n', ""),
    (
        "exchange.default-exchange",
        "broker/exchange/default.py",
        "            queue = self._queues.get(key)\n",
        "            queue = None\n",
    ),
    (
        "exchange.default-access",
        "broker/exchange/registry.py",
        '        """Delete an exchange. A missing one is an error only in the strict dialect."""\n        _refuse_default(name)\n',
        '        """Delete an exchange. A missing one is an error only in the strict dialect."""\n',
    ),
    ("exchange.extensions", "broker/exchange/types.py", '    "x-random": RandomExchange,\n', ""),
    (
        "exchange.declare.minimum",
        "broker/exchange/registry.py",
        "        _refuse_reserved(name)\n        check_room(",
        "        _refuse_reserved(name)\n        if len(self.by_name) > 200:\n"
        "            raise PreconditionFailed(name)\n        check_room(",
    ),
    (
        "exchange.declare.exchange.reserved",
        "broker/exchange/registry.py",
        "            return found\n        _refuse_reserved(name)\n        check_room(",
        "            return found\n        check_room(",
    ),
    (
        "exchange.declare.exchange.syntax",
        "broker/exchange/registry.py",
        '    dialect.check_name("exchange", name)\n',
        "",
    ),
    (
        "exchange.declare.type.typed",
        "broker/exchange/registry.py",
        "                if kind != found.type:",
        "                if False:",
    ),
    (
        "exchange.declare.type.support",
        "broker/exchange/registry.py",
        "        raise CommandInvalid(error.text) from None",
        "        raise",
    ),
    (
        "exchange.declare.passive.not-found",
        "gateway/amqp091/exchange_methods.py",
        "        channel.vhost.exchanges.find_declared(method.exchange)",
        "        pass",
    ),
    (
        "exchange.declare.passive.equivalent",
        "broker/exchange/registry.py",
        '                args.check_same("exchange", name, self._vhost, "durable", durable, found.durable)\n'
        "                args.check_same_table",
        "                args.check_same_table",
    ),
    (
        "exchange.declare.passive.ignored",
        "gateway/amqp091/exchange_methods.py",
        "    if channel.is_void(method.passive, method.no_wait):",
        "    if False:",
    ),
    (
        "exchange.declare.durable.support",
        "broker/exchange/registry.py",
        "        self._add(exchange)\n        if durable:",
        "        self._add(exchange)\n        if True:",
    ),
    (
        "exchange.delete.exchange.exists",
        "broker/exchange/registry.py",
        "        if name not in self.by_name and not self.dialect.missing_is_fault:",
        "        if name not in self.by_name:",
    ),
    (
        "exchange.delete.if-unused.in-use",
        "broker/exchange/registry.py",
        "        if if_unused and exchange.bindings:",
        "        if False:",
    ),
    (
        "queue.declare.default-binding",
        "broker/exchange/default.py",
        "            queue = self._queues.get(key)\n",
        '            queue = self._queues.get(key.replace("-", "_"))\n',
    ),
    (
        "queue.declare.minimum-queues",
        "broker/vhost.py",
        '        if kind != "classic":\n            args.check_replicated',
        "        if len(self.queues) > 255:\n            raise PreconditionFailed(name)\n"
        '        if kind != "classic":\n            args.check_replicated',
    ),
    (
        "queue.declare.queue.default-name",
        "gateway/amqp091/queue_methods.py",
        'prefix + urlsafe_b64encode(channel.gateway.random_bytes(16)).decode().rstrip("=")',
        'prefix + urlsafe_b64encode(b"0" * 16).decode().rstrip("=")',
    ),
    (
        "queue.declare.queue.reserved",
        "broker/vhost.py",
        '        if name.startswith("amq.") and not generated:',
        "        if False:",
    ),
    ("queue.declare.queue.syntax", "broker/vhost.py", '    dialect.check_name("queue", name)\n', ""),
    (
        "queue.declare.passive.passive",
        "gateway/amqp091/queue_methods.py",
        "        queue = channel.queue(method.queue)\n        queue.used()",
        "        queue = vhost.declare_queue(method.queue, False, True, False, {}, channel.connection)\n        queue.used()",
    ),
    (
        "queue.declare.passive.equivalent",
        "broker/vhost.py",
        '            args.check_same("queue", name, self.name, "durable", durable, found.durable)\n',
        "",
    ),
    (
        "queue.declare.passive.ignored",
        "gateway/amqp091/queue_methods.py",
        "    if channel.is_void(method.passive, method.no_wait):",
        "    if False:",
    ),
    (
        "queue.declare.durable.persistence",
        "broker/vhost.py",
        "        if durable and not exclusive:\n            self._storage",
        "        if False:\n            self._storage",
    ),
    (
        "queue.declare.durable.types",
        "broker/vhost.py",
        "        if durable and not exclusive:\n            self._storage",
        "        if not exclusive:\n            self._storage",
    ),
    (
        "queue.declare.exclusive.types",
        "gateway/amqp091/connection.py",
        "            access.vhost.remove_queues_of(self)\n",
        "",
    ),
    (
        "queue.declare.exclusive.exclusive",
        "broker/vhost.py",
        "        found.check_access(connection)\n        return found",
        "        return found",
    ),
    (
        "queue.declare.auto-delete.pre-existence",
        "broker/vhost.py",
        "            if dialect.compares_what_is_specified:\n",
        '            args.check_same("queue", name, self.name, "auto_delete", auto_delete, found.auto_delete)\n'
        "            if dialect.compares_what_is_specified:\n",
    ),
    (
        "queue.bind.duplicates",
        "broker/exchange/base.py",
        '        return self.routing_key, canonical(self.arguments) if self.arguments else ""\n',
        "        return self.routing_key, canonical(self.arguments) + str(id(self))\n",
    ),
    (
        "queue.bind.unique",
        "broker/exchange/routing.py",
        "        return list(queues)\n",
        "        return [*queues, *list(queues)[:1]]\n",
    ),
    (
        "queue.bind.transient-exchange",
        "broker/exchange/registry.py",
        "        if not self.bindings.add(binding):\n            return\n",
        "        if binding.queue is not None and binding.queue.durable and not source.durable:\n"
        "            raise PreconditionFailed(where)\n"
        "        if not self.bindings.add(binding):\n            return\n",
    ),
    (
        "queue.bind.durable-exchange",
        "broker/exchange/registry.py",
        "        if is_durable(binding):\n            self._storage.definitions.put_binding(self._record(binding))\n",
        "",
    ),
    (
        "queue.bind.binding-count",
        "broker/exchange/registry.py",
        "        if not self.bindings.add(binding):\n            return\n",
        "        if len(source.bindings) > 3:\n            raise PreconditionFailed(where)\n"
        "        if not self.bindings.add(binding):\n            return\n",
    ),
    (
        "queue.bind.queue.queue-known",
        "gateway/amqp091/channel.py",
        '                raise NotFound("no previously declared queue")',
        '                raise PreconditionFailed("no previously declared queue")',
    ),
    (
        "queue.bind.queue.must-exist",
        "broker/vhost.py",
        "            raise NotFound(f\"no queue '{name}' in vhost '{self.name}'\")\n        found.check_access",
        "            raise PreconditionFailed(f\"no queue '{name}' in vhost '{self.name}'\")\n        found.check_access",
    ),
    (
        "queue.bind.exchange.exchange-existence",
        "broker/exchange/routing.py",
        "            raise NotFound(f\"no exchange '{name}' in vhost '{self._vhost}'\")",
        '            return self._exchanges["amq.direct"]',
    ),
    (
        "queue.bind.exchange.default-exchange",
        "broker/exchange/registry.py",
        "        if not self.dialect.binds_default_exchange:\n            _refuse_default(name)",
        "        _refuse_default(name)",
    ),
    (
        "queue.bind.routing-key.direct-exchange-key-matching",
        "broker/exchange/direct.py",
        "            bindings = self._by_key.get(key)\n",
        "            bindings = next((found for known, found in self._by_key.items() if key.startswith(known)), None)\n",
    ),
    (
        "queue.unbind.01",
        "gateway/amqp091/channel.py",
        "            if method.id != methods.QUEUE_UNBIND or not self.vhost.dialect.failed_unbind_ends_connection:\n",
        "            if True:\n",
    ),
    (
        "queue.unbind.queue.queue-known",
        "gateway/amqp091/channel.py",
        '                raise NotFound("no previously declared queue")',
        '                return "none"',
    ),
    (
        "queue.unbind.queue.must-exist",
        "gateway/amqp091/queue_methods.py",
        "    if are_there or vhost.dialect.missing_is_fault:",
        "    if are_there:",
    ),
    (
        "queue.unbind.exchange.must-exist",
        "gateway/amqp091/queue_methods.py",
        "    if are_there or vhost.dialect.missing_is_fault:",
        "    if are_there:",
    ),
    (
        "queue.unbind.exchange.default-exchange",
        "broker/exchange/registry.py",
        "        is_found = self._unbind(Binding(self._bindable(source), queue, routing_key, arguments))",
        "        _refuse_default(source)\n"
        "        is_found = self._unbind(Binding(self._bindable(source), queue, routing_key, arguments))",
    ),
    (
        "queue.purge.02",
        "gateway/amqp091/queue_methods.py",
        '    work = Purge(entry_queue(channel.queue(method.queue), "queue.purge"))\n',
        "    for held in channel.deliveries.unacked.take_all():\n        held.queue.settle(held.entry)\n"
        '    work = Purge(entry_queue(channel.queue(method.queue), "queue.purge"))\n',
    ),
    (
        "queue.purge.03",
        "broker/queue/purge.py",
        "        self._queue.remove(entry)\n        self._queue.drop(entry)\n",
        "        self._queue.remove(entry)\n",
    ),
    (
        "queue.purge.queue.queue-known",
        "gateway/amqp091/channel.py",
        '                raise NotFound("no previously declared queue")',
        '                raise PreconditionFailed("no previously declared queue")',
    ),
    (
        "queue.purge.queue.must-exist",
        "gateway/amqp091/queue_methods.py",
        '    work = Purge(entry_queue(channel.queue(method.queue), "queue.purge"))\n',
        "    known = channel.vhost.queues.get(channel.queue_name(method.queue))\n"
        "    if known is None:\n        channel.reply(QueuePurgeOk(message_count=0))\n        return\n"
        '    work = Purge(entry_queue(channel.queue(method.queue), "queue.purge"))\n',
    ),
    (
        "queue.delete.01",
        "broker/vhost.py",
        "        if self.dialect.dead_letters_deleted and isinstance(queue, EntryQueue):\n",
        "        if False:\n",
    ),
    (
        "queue.delete.queue.queue-known",
        "gateway/amqp091/queue_methods.py",
        '    if name == "":\n',
        "    if False:\n",
    ),
    (
        "queue.delete.queue.must-exist",
        "broker/vhost.py",
        "        if name not in self.queues and not self.dialect.missing_is_fault:",
        "        if name not in self.queues:",
    ),
    (
        "queue.delete.if-unused.in-use",
        "broker/vhost.py",
        "        if if_unused and queue.consumers:",
        "        if False:",
    ),
    (
        "queue.delete.if-empty.not-empty",
        "broker/vhost.py",
        "        held = queue.unacked if self.dialect.unacknowledged_protect else 0\n",
        "        held = 0\n",
    ),
    (
        "basic.01",
        "broker/queue/entries.py",
        "            if options.persistent:\n                return entry\n            self._unkept",
        "            if False:\n                return entry\n            self._unkept",
    ),
    (
        "basic.02",
        "broker/queue/entries.py",
        "        entry = Entry(message, self.next_seq)\n        self.next_seq += 1\n        options",
        "        entry = Entry(message, self.next_seq)\n        self.next_seq += 1\n"
        "        if self.store.count > 4_000:\n            return None\n        options",
    ),
    (
        "basic.03",
        "gateway/amqp091/connection.py",
        "            channel.resume_flow()\n",
        "            pass\n",
    ),
    (
        "basic.04",
        "storage/pages/store.py",
        "        if self.memory_bytes + content.size > self._memory_max:",
        "        if False:",
    ),
    (
        "basic.05",
        "broker/queue/admission.py",
        "        queue.remove(first)\n        queue.make_dead_letter(first, MAXLEN)\n",
        "        queue.remove(first)\n        queue.drop(first)\n",
    ),
    (
        "basic.06",
        "broker/queue/priorities.py",
        "        while self._top > 0 and self._levels[self._top].count == 0:\n            self._top -= 1\n"
        "        return self._levels[self._top]",
        "        return next((each for each in self._levels if each.count), self._levels[0])",
    ),
    (
        "basic.07",
        "broker/message.py",
        "        return min(highest, self.priority)\n",
        "        return min(highest, self.priority) // 2 * 2\n",
    ),
    (
        "basic.08",
        "broker/queue/priorities.py",
        "        level = self._level(entry)\n        self._levels[level].append(entry)",
        "        level = self._level(entry) + (1 if entry.message.options.persistent else 0)\n"
        "        self._levels[level].append(entry)",
    ),
    (
        "basic.09",
        "gateway/amqp091/deliveries.py",
        "            tag = self.unacked.add(None)\n        else:\n            self.delivered += 1",
        "            tag = self.unacked.add(Delivery(entry, queue, None, 0, 0))\n        else:\n            self.delivered += 1",
    ),
    (
        "basic.10",
        "gateway/amqp091/deliveries.py",
        "        self.requeue(self.unacked.take_all())\n",
        "        self.settle(self.unacked.take_all(), ACCEPT)\n",
    ),
    (
        "basic.qos.prefetch-size.01",
        "gateway/amqp091/window.py",
        "self.bytes_max == 0 or self.messages == 0 or self.bytes + size",
        "self.bytes_max == 0 or self.bytes + size",
    ),
    (
        "basic.qos.prefetch-count.01",
        "gateway/amqp091/window.py",
        "        return self.messages_max == 0 or self.messages < self.messages_max",
        "        return self.messages_max == 0 or self.messages <= self.messages_max",
    ),
    (
        "basic.qos.prefetch-size.no-ack",
        "gateway/amqp091/consumer.py",
        "        self.has_byte_window = not self.no_ack and (",
        "        self.has_byte_window = (",
    ),
    (
        "basic.qos.prefetch-count.no-ack",
        "gateway/amqp091/consumer.py",
        "        if self.no_ack:\n            return True\n",
        "",
    ),
    (
        "basic.get-ok.acknowledged",
        "gateway/amqp091/basic_methods.py",
        "    if method.no_ack:\n        deliveries.got_no_ack += 1",
        "    if True:\n        deliveries.got_no_ack += 1",
    ),
    (
        "basic.consume.01",
        "broker/queue/base.py",
        "        consumers.insert(at, consumer)\n",
        "        if at < 200:\n            consumers.insert(at, consumer)\n",
    ),
    (
        "basic.consume.consumer-tag.01",
        "gateway/amqp091/basic_methods.py",
        "    if tag in deliveries.consumers:",
        "    if False:",
    ),
    (
        "basic.consume.consumer-tag.02",
        "gateway/amqp091/channel.py",
        "        elif self.vhost.dialect.foreign_tag_is_fault:\n            raise",
        "        elif False:\n            raise",
    ),
    (
        "basic.consume.exclusive.01",
        "broker/queue/base.py",
        "bool(self.consumers) and (consumer.exclusive or self.consumers[0].exclusive)",
        "bool(self.consumers) and self.consumers[0].exclusive",
    ),
    (
        "basic.cancel.01",
        "gateway/amqp091/channel.py",
        "            self._ended_tags.add(consumer.tag)",
        "            pass",
    ),
    (
        "basic.publish.exchange.must-exist",
        "broker/exchange/routing.py",
        "            raise NotFound(f\"no exchange '{name}' in vhost '{self._vhost}'\")",
        '            return self._exchanges["amq.direct"]',
    ),
    (
        "basic.publish.exchange.default-exchange",
        "broker/exchange/default.py",
        "                found.append(Binding(self, queue, key, {}))\n",
        "                pass\n",
    ),
    (
        "basic.publish.exchange.02",
        "broker/exchange/routing.py",
        "            if exchange.internal:",
        "            if False:",
    ),
    (
        "basic.publish.exchange.03",
        "broker/exchange/headers.py",
        "        if not self._conditions:\n            return []\n",
        "        return []\n",
    ),
    (
        "basic.publish.mandatory.01",
        "gateway/amqp091/channel.py",
        "        if target.mandatory:\n            self._return(message, NoRoute.code, NoRoute.name)",
        "        if False:\n            self._return(message, NoRoute.code, NoRoute.name)",
    ),
    (
        "basic.publish.immediate.01",
        "gateway/amqp091/channel.py",
        "        elif outcome == UNDELIVERED:\n            self._return(message, NoConsumers.code, NoConsumers.name)",
        "        elif False:\n            self._return(message, NoConsumers.code, NoConsumers.name)",
    ),
    (
        "basic.deliver.01",
        "broker/queue/entries.py",
        "                if limit >= 0 and i64(entry.returns) > limit:",
        "                if limit >= 0 and i64(entry.returns) > limit + 1:",
    ),
    (
        "basic.ack.multiple.exists",
        "gateway/amqp091/unacked.py",
        '        found = slots[at]\n        if found is None:\n            raise PreconditionFailed(f"unknown delivery tag {tag}")\n',
        "        found = slots[at]\n        if found is None:\n            return []\n",
    ),
    (
        "basic.reject.01",
        "server/peer.py",
        "    def pause_writing(self) -> None:\n        self.is_full = True",
        "    def pause_writing(self) -> None:\n        self.is_full = True\n        self.gate.add(OUTPUT)",
    ),
    (
        "basic.reject.02",
        "gateway/amqp091/basic_methods.py",
        "    channel.settle(_tag(method.delivery_tag), False, REQUEUE if method.requeue else REJECT)",
        "    channel.settle(_tag(method.delivery_tag), False, REJECT)",
    ),
    (
        "basic.reject.03",
        "client/channel.py",
        "        self.channel.send(BasicNack(delivery_tag=delivery_tag, multiple=multiple, requeue=requeue))",
        "        self.channel.send(BasicNack(delivery_tag=delivery_tag, multiple=multiple, requeue=False))",
    ),
    (
        "basic.reject.requeue.01",
        "gateway/amqp091/deliveries.py",
        "            elif self._owner.vhost.dialect.withholds_rejected:",
        "            elif False:",
    ),
    (
        "basic.recover-async.01",
        "gateway/amqp091/deliveries.py",
        "            entry.redelivered = True\n            delivery.since_ms",
        "            delivery.since_ms",
    ),
    (
        "basic.recover.01",
        "gateway/amqp091/deliveries.py",
        "            entry.redelivered = True\n            delivery.since_ms",
        "            delivery.since_ms",
    ),
    (
        "tx.not multiple queues",
        "broker/transaction.py",
        "        self._publishes.append(staged)\n",
        "        self._publishes[:] = [staged]\n",
    ),
    (
        "tx.not immediate",
        "gateway/publishing.py",
        "            outcome = put_at_once(queues, message, self._journal)",
        "            outcome = put(queues, message, self._journal)",
    ),
    (
        "tx.not mandatory",
        "gateway/amqp091/channel.py",
        "        if target.mandatory:\n            self._return(message, NoRoute.code, NoRoute.name)",
        "        if target.mandatory and self.transaction is None:\n"
        "            self._return(message, NoRoute.code, NoRoute.name)",
    ),
    (
        "tx.commit.transacted",
        "gateway/amqp091/channel.py",
        '        if self.transaction is None:\n            raise PreconditionFailed("channel is not transactional")\n',
        "        if self.transaction is None:\n            self.select_transaction()\n        assert self.transaction is not None\n",
    ),
    (
        "tx.rollback.transacted",
        "gateway/amqp091/channel.py",
        '        if self.transaction is None:\n            raise PreconditionFailed("channel is not transactional")\n',
        "        if self.transaction is None:\n            self.select_transaction()\n        assert self.transaction is not None\n",
    ),
    (
        "tx.atomic",
        "broker/transaction.py",
        "        staged.stage()\n        self._settlements.append(staged)",
        "        staged.stage()\n        staged.take()\n        staged.apply()",
    ),
    (
        "tx.select.first",
        "gateway/amqp091/channel.py",
        '        if self.transaction is None:\n            raise PreconditionFailed("channel is not transactional")\n        return self.transaction\n',
        '        if self.transaction is None:\n            raise PreconditionFailed("channel is not transactional")\n'
        "        found, self.transaction = self.transaction, None\n        return found\n",
    ),
    (
        "tx.rollback.recover",
        "gateway/amqp091/channel.py",
        "        self._staged().roll_back()\n",
        "        self._staged().roll_back()\n        self.deliveries.requeue(self.deliveries.unacked.take_outstanding())\n",
    ),
    (
        "exchange.bind",
        "broker/exchange/routing.py",
        "                if following is not None and following not in seen:",
        "                if False:",
    ),
    (
        "exchange.bind.cycle",
        "broker/exchange/routing.py",
        "following is not None and following not in seen:",
        "following is not None and following not in seen and len(way) < 2:",
    ),
    (
        "exchange.bind.self",
        "broker/exchange/routing.py",
        "        return list(queues)\n",
        "        return list(queues) if len(way) > 1 or not way[0].bindings else [*queues, *queues]\n",
    ),
    (
        "exchange.bind.duplicates",
        "broker/exchange/routing.py",
        "        return list(queues)\n",
        "        return [*queues, *list(queues)[:1]]\n",
    ),
    (
        "exchange.unbind",
        "broker/exchange/registry.py",
        "        self._unbind(Binding(self._bindable(source), end, routing_key, arguments))\n",
        "        self._bindable(source)\n",
    ),
    (
        "exchange.declare.auto-delete",
        "broker/exchange/registry.py",
        "    return exchange.auto_delete and not exchange.bindings",
        "    return False",
    ),
    (
        "exchange.declare.internal",
        "broker/exchange/routing.py",
        "            if exchange.internal:",
        "            if False:",
    ),
    (
        "basic.nack",
        "gateway/amqp091/basic_methods.py",
        "    channel.settle(_tag(method.delivery_tag), method.multiple, REQUEUE if method.requeue else REJECT)",
        "    channel.settle(_tag(method.delivery_tag), False, REQUEUE if method.requeue else REJECT)",
    ),
    (
        "confirm.select",
        "gateway/amqp091/confirms.py",
        "needs_disk = self.stored or bool(self._added)",
        "needs_disk = False",
    ),
    (
        "basic.cancel",
        "gateway/amqp091/channel.py",
        "        if self._notify_cancel:\n            self._cancelled",
        "        if False:\n            self._cancelled",
    ),
    (
        "connection.blocked",
        "gateway/amqp091/connection.py",
        "            self._is_blocked = False\n            self.engine.blocked(None)",
        "            self._is_blocked = False",
    ),
    (
        "connection.update-secret",
        "gateway/amqp091/connection.py",
        "        if self._login.bearer is None:\n            self.engine.accept_secret()",
        "        if self._login.bearer is None:\n            pass",
    ),
    ("connection.capabilities", "app/server_properties.py", '                "per_consumer_qos": True,\n', ""),
)

# Rows that no change of the sources breaks alone, and why.
WITHOUT: Final[dict[str, str]] = {}

"""A broken rule for each row of docs/conformance-amqp10.md."""

from typing import Final

from tests.conformance.mutations.mutation import Mutation, listed

MUTATIONS: Final[tuple[Mutation, ...]] = listed(
    (
        "3.4.6.target-keeps-parts",
        "gateway/amqp10/incoming_link.py",
        '                found[tag] = received_state(b"".join(received.parts))',
        "                found[tag] = None",
    ),
    (
        "3.4.6.tag-2-receiver-skips",
        "gateway/amqp10/incoming_link.py",
        "            progress = Progress(0 if known is None else seen(known, delivery.state))",
        "            progress = Progress(0)",
    ),
    (
        "3.4.6.tag-2-any-start",
        "gateway/amqp10/incoming_link.py",
        "            progress = Progress(0 if known is None else seen(known, delivery.state))",
        "            progress = Progress(0 if known is None else known.size)",
    ),
    (
        "3.4.6.tag-4-receiver-forgets",
        "gateway/amqp10/incoming_link.py",
        (
            "            if not payload:\n"
            "                # The part has no new bytes to remember.\n"
            "                return"
        ),
        "            pass",
    ),
    (
        "3.4.6.tag-5-resend",
        "protocol/amqp10/receiver.py",
        "        self._is_ignored = transfer.resume and tag not in self.resumable",
        "        self._is_ignored = tag not in self.resumable",
    ),
    (
        "3.4.6.tag-6-receiver-skips",
        "gateway/amqp10/incoming_link.py",
        "            progress = Progress(0 if known is None else seen(known, delivery.state))",
        "            progress = Progress(0)",
    ),
    (
        "3.4.6.tag-7",
        "gateway/amqp10/incoming_link.py",
        (
            "        self._release_budget()\n"
            "        if self.terminus is not None:\n"
            "            self.terminus.forget(delivery.tag)"
        ),
        "        self._release_budget()",
    ),
    (
        "3.4.6.target-outcome",
        "gateway/amqp10/incoming_link.py",
        "                found[tag] = decoded_state(received.outcome)",
        "                found[tag] = None",
    ),
    (
        "3.4.6.tag-8",
        "gateway/amqp10/incoming_link.py",
        (
            "            self.link.settle(delivery, delivery.state if isinstance(delivery.state, Outcome) else ours)\n"
            "        terminus.forget(delivery.tag)"
        ),
        "            self.link.settle(delivery, delivery.state if isinstance(delivery.state, Outcome) else ours)",
    ),
    (
        "3.4.6.tag-10",
        "gateway/amqp10/incoming_link.py",
        ("        if settled and self.terminus is not None:\n            self.terminus.forget(delivery.tag)"),
        "        pass",
    ),
    (
        "3.4.6.tag-11-aborted",
        "gateway/amqp10/incoming_link.py",
        (
            "        self._release_budget()\n"
            "        if self.terminus is not None:\n"
            "            self.terminus.forget(delivery.tag)"
        ),
        "        self._release_budget()",
    ),
    (
        "3.4.6.tag-12-settled",
        "gateway/amqp10/incoming_link.py",
        (
            "            self.link.settle(delivery, delivery.state if isinstance(delivery.state, Outcome) else ours)\n"
            "        terminus.forget(delivery.tag)"
        ),
        "            self.link.settle(delivery, delivery.state if isinstance(delivery.state, Outcome) else ours)",
    ),
    (
        "3.4.6.tag-13-restated",
        "gateway/amqp10/incoming_link.py",
        "            self.link.settle(delivery, delivery.state if isinstance(delivery.state, Outcome) else ours)",
        "            self.link.settle(delivery, ours)",
    ),
    (
        "3.4.6.target-differs",
        "gateway/amqp10/incoming_link.py",
        "            self.link.settle(delivery, delivery.state if isinstance(delivery.state, Outcome) else ours)",
        "            self.link.settle(delivery, ours)",
    ),
    (
        "3.4.6.tag-14",
        "gateway/amqp10/incoming_link.py",
        (
            "        self._release_budget()\n"
            "        if self.terminus is not None:\n"
            "            self.terminus.forget(delivery.tag)"
        ),
        "        self._release_budget()",
    ),
    (
        "3.4.6.target-aborted",
        "gateway/amqp10/incoming_link.py",
        (
            "        self._release_budget()\n"
            "        if self.terminus is not None:\n"
            "            self.terminus.forget(delivery.tag)"
        ),
        "        self._release_budget()",
    ),
    (
        "3.4.6.target-unknown-resumed",
        "protocol/amqp10/receiver.py",
        "        self._is_ignored = transfer.resume and tag not in self.resumable",
        "        self._is_ignored = False",
    ),
    (
        "2.6.13.only-source",
        "protocol/amqp10/receiver.py",
        "        self._is_ignored = transfer.resume and tag not in self.resumable",
        "        self._is_ignored = False",
    ),
    (
        "2.7.5.resume-unknown",
        "protocol/amqp10/receiver.py",
        "        self._is_ignored = transfer.resume and tag not in self.resumable",
        "        self._is_ignored = False",
    ),
    (
        "2.7.3.no-null-keys",
        "wire/amqp10/composite_reader.py",
        "        tag = reader.binary()\n",
        '        tag = b"" if reader.is_null() else reader.binary()\n',
    ),
    (
        "2.7.3.incomplete-receiver-detaches",
        "protocol/amqp10/receiver.py",
        "        if self.only_resumes and not transfer.resume:",
        "        if False:",
    ),
    (
        "5.1.closed-in-order",
        "server/peer.py",
        "        if (self._was_open and not self.is_encrypted) or not transport.can_write_eof():",
        "        if self._was_open or self.is_encrypted or not transport.can_write_eof():",
    ),
    (
        "5.2.tls-header",
        "server/peer.py",
        ("                transport.write(TLS_HEADER)\n                if data.startswith(TLS_HEADER):"),
        "                if data.startswith(TLS_HEADER):",
    ),
    (
        "5.3.sasl-header",
        "protocol/amqp10/connection.py",
        ("            self.frames.send_raw(due)\n            if layer is Layer.SASL:"),
        "            if layer is Layer.SASL:",
    ),
    (
        "5.3.1.frame-bytes-zero",
        "wire/amqp10/frames.py",
        "    start = begin_frame(w, 0, FRAME_SASL)",
        "    start = begin_frame(w, 1, FRAME_SASL)",
    ),
    (
        "5.3.1.doff",
        "wire/amqp10/frames.py",
        ("    w.append(2)\n    w.append(kind)"),
        ("    w.append(2 + kind)\n    w.append(kind)"),
    ),
    (
        "5.3.1.frame-bytes-said-again",
        "wire/amqp10/frames.py",
        "    start = begin_frame(w, 0, FRAME_SASL)",
        "    start = begin_frame(w, 1, FRAME_SASL)",
    ),
    (
        "5.3.2.roles",
        "protocol/amqp10/sasl.py",
        "        target = SASL[self._role].get(self.state, {}).get(performative.descriptor)",
        "        target = SASL[Role.CLIENT].get(Login.OUTCOME, {}).get(performative.descriptor, Login.DECIDING)",
    ),
    (
        "5.3.3.mechanism-unsupported",
        "protocol/amqp10/connection.py",
        "    def sasl_refuse(self, error: AmqpError | Amqp10Error, code: int = spec.SASL_AUTH) -> None:",
        "    def sasl_refuse(self, error: AmqpError | Amqp10Error, code: int = spec.SASL_OK) -> None:",
    ),
    (
        "5.3.3.hostname",
        "protocol/amqp10/sasl.py",
        ("        if isinstance(performative, SaslInit):\n            owner"),
        (
            "        if isinstance(performative, SaslInit):\n"
            "            if performative.hostname:\n"
            "                raise IllegalState(performative.hostname)\n"
            "            owner"
        ),
    ),
    (
        "5.3.2.plain",
        "protocol/amqp10/connection.py",
        ("        if self._sasl.refuse(code):\n            self._finish(error)"),
        "        self.sasl_accept()",
    ),
    (
        "5.3.2.anonymous-off",
        "gateway/login.py",
        '            elif mechanism == anonymous.NAME and self._gateway.policy.anonymous_user == "":',
        (
            '            elif mechanism == anonymous.NAME and self._gateway.policy.anonymous_user == "":\n'
            '                self._enter(GUEST, b"")\n'
            "            elif False:"
        ),
    ),
    (
        "5.3.2.without-sasl",
        "protocol/amqp10/connection.py",
        "        if got != due:\n",
        (
            "        if got == spec.PROTOCOL_HEADER:\n"
            "            due, layer = got, Layer.FRAMES\n"
            "        elif got != due:\n"
        ),
    ),
    (
        "2.5.1.remote-channel",
        "protocol/amqp10/session.py",
        "        begin.remote_channel = self.remote_number if self.remote_number >= 0 else None",
        "        begin.remote_channel = None",
    ),
    (
        "2.5.2.end",
        "protocol/amqp10/channels.py",
        "            self._incoming[session.remote_number] = None",
        "            pass",
    ),
    (
        "2.5.4.end-with-error",
        "protocol/amqp10/session.py",
        "        self._over(error, End(error=to_wire(error)))",
        "        self._over(error, End())",
    ),
    (
        "2.5.4.discards",
        "protocol/amqp10/connection.py",
        ("            if code == spec.END:\n                session.receive(performative)\n            return"),
        ("            session.receive(performative)\n            return"),
    ),
    (
        "2.5.5.discarding",
        "protocol/amqp10/connection.py",
        "        if not session.is_listening:\n",
        "        if False:\n",
    ),
    (
        "2.5.6.remote-incoming-window",
        "protocol/amqp10/transfers.py",
        "        self._remote_window -= 1\n",
        "        pass\n",
    ),
    (
        "2.5.6.remote-outgoing-window",
        "protocol/amqp10/transfers.py",
        "        self._next_incoming_id = after(self._next_incoming_id, 1)\n",
        "",
    ),
    ("2.5.6.from-flow", "protocol/amqp10/session.py", "        self._remote_window = max(0, window)", "        pass"),
    (
        "2.7.2.no-remote-channel",
        "protocol/amqp10/channels.py",
        "            if session is None or session.remote is not Endpoint.UNSENT:",
        "            if False:",
    ),
    (
        "2.7.2.remote-channel",
        "protocol/amqp10/session.py",
        "        begin.remote_channel = self.remote_number if self.remote_number >= 0 else None",
        "        begin.remote_channel = 0",
    ),
    (
        "2.7.2.handle-max-kept",
        "protocol/amqp10/session.py",
        ("        while handle < len(handles) and handles[handle] is not None:\n            handle += 1"),
        (
            "        while handle < len(handles) and handles[handle] is not None:\n"
            "            handle += 1\n"
            "        while len(handles) < 2:\n"
            "            handles.append(None)\n"
            "        handle = max(1, handle)"
        ),
    ),
    (
        "2.7.2.handle-above-max",
        "protocol/amqp10/session.py",
        ("        if handle > handle_max:\n            raise FramingError("),
        ("        if handle > handle_max:\n            raise InvalidField("),
    ),
    (
        "2.6.2.handles",
        "protocol/amqp10/session.py",
        "        attach.handle = handle\n",
        "        attach.handle = link.remote_handle if link.remote_handle >= 0 else handle\n",
    ),
    (
        "3.3.acquired-is-exclusive",
        "broker/queue/classic.py",
        "        self._hand_over(self.take(), consumer)",
        ("        entry = self.take()\n        self._hand_over(entry, consumer)\n        self.store.put_back([entry])"),
    ),
    (
        "3.3.accepted-archives",
        "gateway/amqp10/outcomes.py",
        "        return settlement.ACCEPTED\n",
        "        return settlement.RELEASED\n",
    ),
    (
        "3.3.rejected-archives",
        "gateway/amqp10/outcomes.py",
        "        return settlement.REJECTED\n",
        "        return settlement.RELEASED\n",
    ),
    (
        "3.3.released-makes-available",
        "gateway/amqp10/outcomes.py",
        "        return settlement.RELEASED\n",
        "        return settlement.ACCEPTED\n",
    ),
    (
        "3.3.modified-makes-available",
        "gateway/amqp10/outcomes.py",
        "        return settlement.modified(state.delivery_failed, state.undeliverable_here, annotations)",
        "        return settlement.ACCEPTED",
    ),
    (
        "3.3.settled-transfer",
        "broker/queue/classic.py",
        ("        self.delivered_no_ack += 1\n        if entry.segment"),
        ("        self.delivered_no_ack += 1\n        self.store.put_back([entry])\n        if entry.segment"),
    ),
    (
        "3.3.lost-receiver",
        "gateway/amqp10/outgoing_link.py",
        ("            self._give_back(self.link.take_unsettled())\n            if terminus"),
        ("            self.link.take_unsettled()\n            if terminus"),
    ),
    (
        "3.4.1.received-only-on-resumption",
        "gateway/amqp10/outgoing_link.py",
        "            link.send(self.number, head, body, False, entry)",
        (
            '            state = __import__("flintmq.wire.amqp10.states", fromlist=["Received"]).Received(0, 0)\n'
            "            link.send_tagged(tag_of(self.number), [head, body], False, 0, state, entry)"
        ),
    ),
    (
        "3.4.3.no-spontaneous-rejection",
        "gateway/amqp10/outgoing_link.py",
        (
            "        for delivery in self.link.take_unsettled():\n"
            "            delivery.mark = None\n"
            "        if self.terminus"
        ),
        (
            "        for delivery in self.session.engine.outgoing.all():\n"
            '            self.link.settle(delivery, __import__("flintmq.wire.amqp10.states", fromlist=["Rejected"]).Rejected())\n'
            "        if self.terminus"
        ),
    ),
    (
        "3.4.3.delivery-count",
        "broker/queue/settlement.py",
        ("        elif self.kind == _REJECT:\n            queue.reject(entry)"),
        ("        elif self.kind == _REJECT:\n            queue.settle(entry)"),
    ),
    (
        "3.4.4.delivery-count-kept",
        "gateway/amqp10/outcomes.py",
        "        return settlement.RELEASED\n",
        "        return settlement.FAILED\n",
    ),
    (
        "3.4.5.modified-applied",
        "broker/queue/settlement.py",
        "            if self.annotations and isinstance(queue, EntryQueue):",
        "            if False:",
    ),
    (
        "3.4.5.delivery-failed",
        "gateway/amqp10/message_encoder.py",
        "ttl, is_new, min(returns, _UINT_MAX))",
        "ttl, is_new, 0)",
    ),
    (
        "3.4.5.undeliverable-here",
        "broker/queue/settlement.py",
        "            if self.undeliverable_here and context is not None and isinstance(queue, EntryQueue):",
        "            if False:",
    ),
    (
        "3.4.5.annotations-merged",
        "broker/queue/settlement.py",
        "            if self.annotations and isinstance(queue, EntryQueue):",
        "            if False:",
    ),
    (
        "3.5.2.copy-link-remembers",
        "gateway/amqp10/attach.py",
        "        consumed = view_of(queue)\n",
        "        consumed = queue\n",
    ),
    (
        "3.5.2.accepted-not-resent",
        "gateway/amqp10/outcomes.py",
        "        return settlement.ACCEPTED\n",
        "        return settlement.RELEASED\n",
    ),
    ("3.5.2.copy", "gateway/amqp10/attach.py", "        consumed = view_of(queue)\n", "        consumed = queue\n"),
    (
        "3.5.2.move",
        "broker/queue/classic.py",
        "        self._hand_over(self.take(), consumer)",
        ("        entry = self.take()\n        self._hand_over(entry, consumer)\n        self.store.put_back([entry])"),
    ),
    (
        "3.5.3.default-outcome",
        "gateway/amqp10/outgoing_link.py",
        ("            outcome = self.default_outcome\n        entry"),
        ("            outcome = settlement.ACCEPTED\n        entry"),
    ),
    (
        "3.5.3.default-outcome-on-detach",
        "gateway/amqp10/outgoing_link.py",
        ("                    self.apply(delivery.tag, entry, self.default_outcome)\n        if entries:"),
        ("                    self.apply(delivery.tag, entry, settlement.RELEASED)\n        if entries:"),
    ),
    (
        "3.5.3.default-outcome-valid",
        "gateway/amqp10/outcomes.py",
        '        raise InvalidField(f"{chosen.type_name} cannot be a default outcome", SCOPE_LINK)',
        "        return DEFAULT_OUTCOME, settlement.RELEASED",
    ),
    (
        "3.5.3.accepted-supported",
        "gateway/amqp10/attach.py",
        "if name in OUTCOMES] or OUTCOMES",
        "if name in OUTCOMES]",
    ),
    (
        "3.5.3.outcomes-valid",
        "gateway/amqp10/attach.py",
        "    source.outcomes = [name for name in source.outcomes if name in OUTCOMES] or OUTCOMES",
        "    source.outcomes = source.outcomes or OUTCOMES",
    ),
    (
        "2.1.frames-in-order",
        "protocol/amqp10/connection.py",
        (
            "            self._held.append(data[pos:])\n"
            "            self._held_bytes = end - pos\n"
            "            self.reassembly.hold_frame(self._held_bytes, self._needed)\n"
            "        if self._dirty:"
        ),
        (
            "            self._held.append(data[pos + 1 :])\n"
            "            self._held_bytes = end - pos - 1\n"
            "            self.reassembly.hold_frame(self._held_bytes, self._needed)\n"
            "        if self._dirty:"
        ),
    ),
    (
        "2.2.header-first",
        "protocol/amqp091/connection.py",
        (
            "        self.output.writer.write(PROTOCOL_HEADER)\n"
            "        self.output.touch()\n"
            "        self._finish(FrameFault("
        ),
        ("        self.output.writer.write(bytes(8))\n        self.output.touch()\n        self._finish(FrameFault("),
    ),
    (
        "2.2.version-kept",
        "protocol/amqp10/connection.py",
        ("            if size > self._frame_max:\n                raise FramingError("),
        ("            if size > self._frame_max:\n                raise IllegalState("),
    ),
    (
        "2.2.mismatch",
        "server/peer.py",
        "        if (self._was_open and not self.is_encrypted) or not transport.can_write_eof():",
        "        if True:",
    ),
    (
        "2.2.supported",
        "protocol/amqp10/connection.py",
        ("            self.frames.send_raw(due)\n            if layer"),
        ("            self.frames.send_raw(spec.SASL_HEADER)\n            if layer"),
    ),
    (
        "2.2.unsupported",
        "protocol/amqp10/connection.py",
        "            self.frames.send_raw(HEADERS[self._logs_in][self.layer][0])\n",
        "            pass\n",
    ),
    (
        "2.2.version-below",
        "protocol/sniff.py",
        "    return Protocol.AMQP_091 if _OLDER <= version < _NEWER else Protocol.AMQP_10",
        "    return Protocol.AMQP_10",
    ),
    (
        "2.2.version-highest",
        "protocol/sniff.py",
        "    return Protocol.AMQP_091 if _OLDER <= version < _NEWER else Protocol.AMQP_10",
        "    return Protocol.AMQP_091",
    ),
    (
        "2.2.unparsable",
        "protocol/amqp091/connection.py",
        (
            "        self.output.writer.write(PROTOCOL_HEADER)\n"
            "        self.output.touch()\n"
            "        self._finish(FrameFault("
        ),
        "        self._finish(FrameFault(",
    ),
    (
        "2.2.protocol-id",
        "protocol/sniff.py",
        ("    if layer != _ID_AMQP:\n        return Protocol.AMQP_091"),
        ("    if layer != _ID_AMQP:\n        return None"),
    ),
    (
        "2.3.1.size",
        "wire/amqp10/frames.py",
        "    if size < FRAME_HEAD_BYTES:\n",
        "    if size < FRAME_HEAD_BYTES:\n        return FRAME_HEAD_BYTES\n",
    ),
    (
        "2.3.2.performative",
        "wire/amqp10/frames.py",
        ("    if not isinstance(body, Performative):\n        raise FramingError("),
        ("    if not isinstance(body, Performative):\n        raise DecodeError("),
    ),
    (
        "2.4.3.close-written",
        "protocol/amqp10/connection.py",
        ("        self.flush()\n        self.frames.send(0, Close(error=to_wire(error)))\n"),
        "        self.flush()\n",
    ),
    (
        "2.4.3.close-last",
        "protocol/amqp10/connection.py",
        ("        self.frames.send(0, Close())\n        self.local = Endpoint.CLOSED\n        self._finish(error)"),
        (
            "        self.frames.send(0, Close())\n"
            "        self.frames.send_raw(EMPTY_FRAME)\n"
            "        self.local = Endpoint.CLOSED\n"
            "        self._finish(error)"
        ),
    ),
    (
        "2.4.3.reads-until-close",
        "server/peer.py",
        "                self._hang_up_in(CLOSE_WAIT_SECONDS)",
        "                pass",
    ),
    (
        "2.4.3.channel-0",
        "protocol/amqp10/connection.py",
        "        self.frames.send(0, opening)\n",
        "        self.frames.send(1, opening)\n",
    ),
    (
        "2.4.3.socket-not-reused",
        "protocol/amqp10/connection.py",
        ("        self.frames.send(0, Close())\n        self.local = Endpoint.CLOSED\n        self._finish(error)"),
        ("        self.frames.send(0, Close())\n        self.layer = Layer.HEADER"),
    ),
    (
        "2.4.5.empty-frames",
        "protocol/amqp10/idle_timeout.py",
        "        self._send_every = idle_ms / 2000",
        "        self._send_every = idle_ms / 1000",
    ),
    (
        "2.4.5.closed-with-error",
        "protocol/amqp10/connection.py",
        '            self.close(ResourceLimitExceeded(f"nothing was sent',
        '            self.lost(ResourceLimitExceeded(f"nothing was sent',
    ),
    (
        "2.4.5.silent-peer",
        "protocol/amqp10/connection.py",
        '            self.close(ResourceLimitExceeded(f"nothing came in',
        '            self.lost(ResourceLimitExceeded(f"nothing came in',
    ),
    (
        "2.4.5.idle-time-out",
        "protocol/amqp10/connection.py",
        "        opening.idle_time_out = tuning.idle_timeout_ms // 2 or None",
        "        opening.idle_time_out = None",
    ),
    (
        "2.4.6.discarding",
        "protocol/amqp10/connection.py",
        ("        self.local = Endpoint.CLOSED\n        self._is_waiting = False\n        self._end(error)"),
        "        self._is_waiting = False",
    ),
    (
        "2.4.2.pipelined-open",
        "protocol/amqp10/connection.py",
        (
            "        self._is_waiting = False\n"
            "        self._needed = 0\n"
            "        if not self._is_reading and self._held_bytes > 0:"
        ),
        (
            "        self._is_waiting = False\n"
            "        self._held = []\n"
            "        self._held_bytes = 0\n"
            "        self._needed = 0\n"
            "        if not self._is_reading and self._held_bytes > 0:"
        ),
    ),
    (
        "2.7.1.open-first",
        "protocol/amqp10/connection.py",
        (
            "        if self.local is Endpoint.UNSENT:\n"
            "            # Open is the first frame that may be sent (part 2 §2.4.1).\n"
            "            self._send_open()\n"
            "        self.flush()"
        ),
        "        self.flush()",
    ),
    (
        "2.7.1.hostname",
        "gateway/amqp10/connection.py",
        ("        if hostname.startswith(_VHOST_PREFIX):\n            name = hostname[len(_VHOST_PREFIX) :]"),
        ("        if hostname:\n            name = hostname.removeprefix(_VHOST_PREFIX)"),
    ),
    (
        "2.7.1.max-frame-size-kept",
        "protocol/amqp10/connection.py",
        "        self.frames.frame_max = min(opening.max_frame_size, FRAME_MAX_BYTES)",
        "        self.frames.frame_max = FRAME_MAX_BYTES",
    ),
    (
        "2.7.1.oversized-frame",
        "protocol/amqp10/connection.py",
        ("            if size > self._frame_max:\n                raise FramingError("),
        ("            if size > self._frame_max * 2:\n                raise FramingError("),
    ),
    (
        "2.7.1.frames-of-512",
        "protocol/amqp10/connection.py",
        ("            self._frame_max = spec.MIN_MAX_FRAME_SIZE\n            self._go_on()"),
        ("            self._frame_max = spec.MIN_MAX_FRAME_SIZE - 1\n            self._go_on()"),
    ),
    (
        "2.7.1.channel-max-kept",
        "protocol/amqp10/channels.py",
        "        while number < len(numbers) and numbers[number] is not None:",
        "        while number < 70:",
    ),
    (
        "2.7.1.channel-above-max",
        "protocol/amqp10/channels.py",
        "        if number > self._channel_max:",
        "        if number > self._channel_max + 1:",
    ),
    (
        "2.7.1.en-us",
        "protocol/amqp10/session.py",
        'raise UnattachedHandle(f"{performative.type_name} on handle {handle}, to which no link is attached")',
        'raise UnattachedHandle(f"{performative.type_name} auf Kennung {handle}, zu der es keine Verbindung gibt")',
    ),
    (
        "2.7.1.missing-capability",
        "protocol/amqp10/connection.py",
        ("        self.frames.send(0, Close())\n        self.local = Endpoint.CLOSED\n        self._finish(error)"),
        ("        self.local = Endpoint.CLOSED\n        self._finish(error)"),
    ),
    (
        "2.7.9.close-sent",
        "protocol/amqp10/connection.py",
        ("        self.flush()\n        self.frames.send(0, Close(error=to_wire(error)))\n"),
        "        self.flush()\n",
    ),
    (
        "2.8.14.error-fields",
        "protocol/amqp10/faults.py",
        'description=error.text.encode()[:room].decode(errors="ignore")',
        "description=None",
    ),
    (
        "3.5.1.filter-is-stable",
        "gateway/amqp10/attach.py",
        "    consumer.filter_by(wanted.no_local, wanted.condition)\n",
        "    consumer.filter_by(wanted.no_local, None)\n",
    ),
    ("3.5.3.filter-checked", "gateway/amqp10/attach.py", "    source.filter = wanted.in_place\n", "    pass\n"),
    (
        "3.5.8.filter-types",
        "gateway/amqp10/filters.py",
        "    raise InvalidField(f\"the filter '{name}' is not of a described type\", SCOPE_LINK)",
        "    return None",
    ),
    (
        "3.5.8.null-filter",
        "gateway/amqp10/filters.py",
        "    if value is None or isinstance(value, Described):",
        "    if isinstance(value, Described):",
    ),
    ("3.5.8.echoed", "gateway/amqp10/attach.py", "    source.filter = wanted.in_place\n", "    pass\n"),
    (
        "3.5.8.selector",
        "gateway/amqp10/attach.py",
        "    consumer.filter_by(wanted.no_local, wanted.condition)\n",
        "    consumer.filter_by(wanted.no_local, None)\n",
    ),
    (
        "3.5.8.all-must-pass",
        "gateway/amqp10/filters.py",
        "            conditions.append(parsed(text))\n",
        "            conditions[:] = [parsed(text)]\n",
    ),
    (
        "3.5.3.distribution-mode-told",
        "gateway/amqp10/attach.py",
        "        source.distribution_mode = COPY if queue.keeps_all else MOVE\n",
        "        source.distribution_mode = None\n",
    ),
    (
        "3.5.3.capabilities",
        "gateway/amqp10/attach.py",
        "    source.capabilities = [nodes.VOLATILE] if is_reply else [*known, *nodes.FILTERS]",
        "    source.capabilities = []",
    ),
    (
        "3.5.3.dynamic-no-address-asked",
        "gateway/amqp10/nodes.py",
        "    if terminus.dynamic and terminus.address is not None:",
        "    if False:",
    ),
    (
        "3.5.4.dynamic-no-address-asked",
        "gateway/amqp10/nodes.py",
        "    if terminus.dynamic and terminus.address is not None:",
        "    if False:",
    ),
    (
        "3.5.3.dynamic-flag-no-address",
        "gateway/amqp10/nodes.py",
        "    if terminus.dynamic and terminus.address is not None:",
        "    if False:",
    ),
    (
        "3.5.4.dynamic-flag-no-address",
        "gateway/amqp10/nodes.py",
        "    if terminus.dynamic and terminus.address is not None:",
        "    if False:",
    ),
    (
        "3.5.3.dynamic-address-told",
        "gateway/amqp10/nodes.py",
        "    terminus.address = queue_address(name)\n",
        "    terminus.address = None\n",
    ),
    (
        "3.5.4.dynamic-address-told",
        "gateway/amqp10/nodes.py",
        "    terminus.address = queue_address(name)\n",
        "    terminus.address = None\n",
    ),
    ("3.5.3.generated-name", "gateway/amqp10/nodes.py", '    shown = f"{container}-{link}-" if', '    shown = "" if'),
    ("3.5.4.generated-name", "gateway/amqp10/nodes.py", '    shown = f"{container}-{link}-" if', '    shown = "" if'),
    (
        "3.5.3.generated-name-traceable",
        "gateway/amqp10/nodes.py",
        '    shown = f"{container}-{link}-" if',
        '    shown = "" if',
    ),
    (
        "3.5.4.generated-name-traceable",
        "gateway/amqp10/nodes.py",
        '    shown = f"{container}-{link}-" if',
        '    shown = "" if',
    ),
    (
        "3.5.3.node-properties-only-dynamic",
        "gateway/amqp10/nodes.py",
        "    if not terminus.dynamic and terminus.dynamic_node_properties:",
        "    if False:",
    ),
    (
        "3.5.4.node-properties-only-dynamic",
        "gateway/amqp10/nodes.py",
        "    if not terminus.dynamic and terminus.dynamic_node_properties:",
        "    if False:",
    ),
    (
        "3.5.9.lifetime-policy",
        "gateway/amqp10/nodes.py",
        '        _LIFETIME: Described(ULong(CODES[f"amqp:{policy or ON_CLOSE}:list"]), []),',
        '        _LIFETIME: Described(ULong(CODES[f"amqp:{ON_CLOSE}:list"]), []),',
    ),
    (
        "3.5.9.supported-dist-modes",
        "gateway/amqp10/nodes.py",
        'Array("symbol", [Symbol(MOVE), Symbol(COPY)])',
        'Array("string", [MOVE, COPY])',
    ),
    (
        "3.5.9.supported-dist-modes-type",
        "gateway/amqp10/nodes.py",
        "[] if modes is None else [modes]",
        "[] if modes is None else [1]",
    ),
    (
        "3.5.10.delete-on-close",
        "broker/queue/lifetime.py",
        "            return self._creator is None\n",
        "            return False\n",
    ),
    (
        "3.5.11.delete-on-no-links",
        "broker/queue/lifetime.py",
        "        return not self._links and not self._has_consumers()",
        "        return False",
    ),
    (
        "3.5.12.delete-on-no-messages",
        "broker/queue/lifetime.py",
        ("        if self._messages == 0:\n            self.check()"),
        "        pass",
    ),
    (
        "3.5.13.delete-on-no-links-or-messages",
        "broker/queue/lifetime.py",
        "self._counts = policy == ON_NO_MESSAGES or policy == ON_NO_LINKS_OR_MESSAGES",
        "self._counts = policy == ON_NO_MESSAGES",
    ),
    (
        "address.v2-queue",
        "gateway/amqp10/addresses.py",
        '    if address.startswith("/queues/"):',
        '    if address.startswith("/queuez/"):',
    ),
    (
        "address.v2-exchange-key",
        "gateway/amqp10/addresses.py",
        'percent_decoded(parts[1]) if len(parts) == 2 else ""',
        '""',
    ),
    (
        "address.v2-exchange",
        "gateway/amqp10/attach.py",
        ("    if place.key is None:\n        return IncomingLink(session, link, target, None, place.name)\n"),
        (
            '    if place.key == "":\n'
            "        raise NotFound(place.name)\n"
            "    if place.key is None:\n"
            "        return IncomingLink(session, link, target, None, place.name)\n"
        ),
    ),
    (
        "address.v2-null",
        "gateway/amqp10/attach.py",
        "        return IncomingLink(session, link, target, None, None)\n",
        '        raise InvalidField("a target without an address", SCOPE_LINK)\n',
    ),
    (
        "address.v2-percent",
        "gateway/amqp10/addresses.py",
        "        raw.append(bytes([int(part[:2], 16)]))",
        "        raw.append(part[:2].encode())",
    ),
    (
        "address.v1",
        "gateway/amqp10/addresses.py",
        ('        if parts[0] == "topic":\n            return'),
        ("        if False:\n            return"),
    ),
    ("address.plain", "gateway/amqp10/attach.py", "    return Place(QUEUE, name)\n", "    raise NotFound(name)\n"),
    (
        "address.not-found",
        "gateway/amqp10/attach.py",
        ("        raise NotFound(f\"no queue '{place.name}' in vhost '{vhost.name}'\")\n    return found"),
        ("        raise InvalidField(f\"no queue '{place.name}' in vhost '{vhost.name}'\")\n    return found"),
    ),
    (
        "address.malformed",
        "gateway/amqp10/addresses.py",
        ("    if place is None:\n        raise refused(address)\n    return place"),
        ("    if place is None:\n        return Place(PLAIN, address, None)\n    return place"),
    ),
    (
        "address.vhost",
        "gateway/amqp10/connection.py",
        "        if hostname.startswith(_VHOST_PREFIX):\n",
        "        if False:\n",
    ),
    (
        "address.refused",
        "gateway/amqp10/attach.py",
        ('        session.rights.check(READ, "queue", place.name)\n        return _queue'),
        "        return _queue",
    ),
    (
        "outcome.unroutable",
        "gateway/amqp10/incoming_link.py",
        ("        elif outcome == UNROUTED:\n            self._settle(delivery, RELEASED)"),
        ("        elif outcome == UNROUTED:\n            self._settle(delivery, ACCEPTED)"),
    ),
    (
        "outcome.refused",
        "gateway/amqp10/incoming_link.py",
        ("        elif outcome == TURNED_AWAY:\n            self._settle(delivery, _too_long(queues))"),
        ("        elif outcome == TURNED_AWAY:\n            self._settle(delivery, ACCEPTED)"),
    ),
    (
        "4.1.commit",
        "broker/transaction.py",
        ("                each.put(queues)\n            before"),
        ("                pass\n            before"),
    ),
    (
        "4.1.rollback",
        "gateway/amqp10/transactions.py",
        ("        found.work.roll_back()\n        for delivery in found.acquired:"),
        ("        found.work.commit()\n        for delivery in found.acquired:"),
    ),
    (
        "4.1.control-link-closed",
        "gateway/amqp10/coordinator.py",
        ("        self._transactions.roll_back_of(self._link)\n\n    def on_released"),
        ("\n    def on_released"),
    ),
    (
        "4.1.connection-lost",
        "gateway/amqp10/transactions.py",
        "                del self._open[found.id]\n                self._roll_back(found)",
        "                del self._open[found.id]\n                found.work.commit()",
    ),
    (
        "4.1.survives-a-kill",
        "broker/transaction.py",
        "                settlement.apply()",
        "                pass",
    ),
    (
        "4.2.declared",
        "gateway/amqp10/transactions.py",
        '        txn_id = self._count.to_bytes(_ID_BYTES, "big")',
        '        txn_id = self._count.to_bytes(40, "big")',
    ),
    ("4.2.several", "gateway/amqp10/transactions.py", "        self._count += 1\n", "        self._count = 1\n"),
    (
        "4.2.other-sections",
        "gateway/amqp10/coordinator.py",
        "        if found.body_kind == AMQP_VALUE:",
        "        if found.body_kind == AMQP_VALUE and found.body == 0:",
    ),
    (
        "4.2.not-settled",
        "gateway/amqp10/coordinator.py",
        ("        if delivery is None or delivery.is_settled:\n            raise IllegalState("),
        ("        if False:\n            raise IllegalState("),
    ),
    (
        "4.2.error-conveyed",
        "gateway/amqp10/coordinator.py",
        '            raise NotImplementedHere("there are no distributed transactions here: no global-id")',
        "            return ACCEPTED",
    ),
    (
        "4.2.error-rejected",
        "gateway/amqp10/coordinator.py",
        ("            state = Rejected(error=to_wire(error))\n        if state is not None:"),
        ("            raise\n        if state is not None:"),
    ),
    (
        "4.2.error-detached",
        "gateway/amqp10/coordinator.py",
        ("            if not self._rejects:\n                raise\n            state"),
        "            state",
    ),
    (
        "4.5.2.global-id",
        "gateway/amqp10/coordinator.py",
        "        if command.global_id is not None:\n",
        "        if False:\n",
    ),
    (
        "4.5.2.global-id-unsupported",
        "gateway/amqp10/coordinator.py",
        "        if command.global_id is not None:\n",
        "        if False:\n",
    ),
    (
        "4.5.7.capabilities",
        "gateway/amqp10/coordinator.py",
        "target=Coordinator(capabilities=capabilities)",
        "target=Coordinator()",
    ),
    (
        "4.3.unknown-id",
        "gateway/amqp10/transactions.py",
        '            raise UnknownTransaction(f"there',
        '            raise InvalidField(f"there',
    ),
    (
        "4.3.error-conveyed",
        "gateway/amqp10/transactions.py",
        (
            "        found = self._open.get(txn_id)\n"
            "        if found is None:\n"
            '            raise UnknownTransaction(f"there'
        ),
        ('        found = self._open.get(txn_id)\n        if found is None:\n            raise InvalidField(f"there'),
    ),
    (
        "4.3.error-rejected",
        "gateway/amqp10/coordinator.py",
        ("            state = Rejected(error=to_wire(error))\n        # Dispositions"),
        ("            state = ACCEPTED\n        # Dispositions"),
    ),
    (
        "4.3.error-detached",
        "gateway/amqp10/coordinator.py",
        ("            if not self._rejects:\n                raise error\n"),
        "            pass\n",
    ),
    (
        "4.3.rollback-always",
        "gateway/amqp10/transactions.py",
        ("        if fail or found.failure is not None:\n            self._roll_back(found)"),
        (
            "        if fail and found.failure is not None:\n"
            "            raise found.failure\n"
            "        if fail or found.failure is not None:\n"
            "            self._roll_back(found)"
        ),
    ),
    (
        "4.4.txn-id-correct",
        "gateway/amqp10/incoming_link.py",
        "            self.link.settle(delivery, TransactionalState(txn_id=state.txn_id, outcome=outcome))",
        '            self.link.settle(delivery, TransactionalState(txn_id=b"\\0", outcome=outcome))',
    ),
    (
        "4.4.1.all-frames",
        "protocol/amqp10/receiver.py",
        "        isinstance(before, TransactionalState) and before.txn_id == now.txn_id\n",
        "        True\n",
    ),
    (
        "4.4.1.partial-delivery",
        "gateway/amqp10/coordinator.py",
        "        if self._is_half_posted(command.txn_id):",
        "        if False:",
    ),
    (
        "4.4.2.one-transaction",
        "gateway/amqp10/transactions.py",
        "        if delivery not in found.acquired and any(delivery in each.acquired for each in self._open.values()):",
        "        if False:",
    ),
    (
        "4.4.2.other-transaction",
        "gateway/amqp10/transactions.py",
        "        link.detach(TransactionRollback(reason))\n",
        "        link.detach(PreconditionFailed(reason))\n",
    ),
    (
        "4.4.2.retirement",
        "gateway/amqp10/transactions.py",
        ("        self._apply(self._outcome)\n        if not self._settled"),
        "        if not self._settled",
    ),
    (
        "4.4.2.retirement-rolled-back",
        "gateway/amqp10/transactions.py",
        ("        delivery.mark = self._entry\n        terminus = link.terminus"),
        ("        link.link.settle(delivery)\n        terminus = link.terminus"),
    ),
    (
        "4.4.3.acquisition",
        "gateway/amqp10/outgoing_link.py",
        "        state = None if acquires is None else TransactionalState(txn_id=acquires.id)",
        "        state = None",
    ),
    (
        "4.4.3.acquisition-unsupported",
        "gateway/amqp10/outgoing_link.py",
        "            self.session.transactions.acquire(self, txn_id if isinstance(txn_id, bytes) else None)",
        "            pass",
    ),
    (
        "4.4.3.no-credit-left",
        "gateway/amqp10/transactions.py",
        ("        for link in found.acquiring:\n            link.acquires_for(None)"),
        "        pass",
    ),
    (
        "4.4.3.half-sent",
        "gateway/amqp10/transactions.py",
        (
            "        if fail or found.failure is not None:\n"
            "            self._roll_back(found)\n"
            "        else:\n"
            "            self._discharged(found)"
        ),
        "        self._roll_back(found)",
    ),
    ("4.4.3.half-sent-failure", "gateway/amqp10/coordinator.py", "        if aborting:\n", "        if False:\n"),
    (
        "4.4.4.posting-fails",
        "gateway/amqp10/incoming_link.py",
        ("            found.failure = error\n            if isinstance(error, NotImplementedHere):"),
        "            if isinstance(error, NotImplementedHere):",
    ),
    (
        "4.4.4.outcome-before-commit",
        "gateway/amqp10/incoming_link.py",
        "            self.link.settle(delivery, TransactionalState(txn_id=state.txn_id, outcome=outcome))",
        "            pass",
    ),
    (
        "4.4.4.outcome-same-transaction",
        "gateway/amqp10/incoming_link.py",
        "            self.link.settle(delivery, TransactionalState(txn_id=state.txn_id, outcome=outcome))",
        "            self.link.settle(delivery, outcome)",
    ),
    ("4.4.4.outcome-withdrawn", "broker/transaction.py", "    if promised and not remaining:\n", "    if False:\n"),
    (
        "4.4.4.outcome-reflected",
        "gateway/amqp10/posted_delivery.py",
        "        self._delivery.mark = self._outcome\n",
        "        pass\n",
    ),
    (
        "4.4.4.controller-settles",
        "gateway/amqp10/incoming_link.py",
        ("        if settled and self.terminus is not None:\n            self.terminus.forget(delivery.tag)"),
        "        pass",
    ),
    (
        "4.4.4.settled-then-rolled-back",
        "gateway/amqp10/transactions.py",
        ("            self._apply(link.default_outcome)\n            return"),
        "            return",
    ),
    (
        "4.4.4.acquired-outcome",
        "gateway/amqp10/outgoing_link.py",
        ("        if isinstance(state, TransactionalState):\n            try:"),
        (
            "        if isinstance(state, TransactionalState):\n"
            "            state = state.outcome\n"
            "        if isinstance(state, TransactionalState):\n"
            "            try:"
        ),
    ),
    (
        "2.2.opener-speaks-first",
        "protocol/amqp10/connection.py",
        ("            if logs_in:\n                self.frames.send_raw(spec.SASL_HEADER)"),
        ("            if logs_in:\n                pass"),
    ),
    (
        "2.2.client-header",
        "wire/amqp10/spec.py",
        'SASL_HEADER: Final = b"AMQP\\x03\\x01\\x00\\x00"',
        'SASL_HEADER: Final = b"AMQP\\x03\\x01\\x01\\x00"',
    ),
    ("5.2.server-name", "client/socket_driver.py", "server_hostname=server_name)", 'server_hostname="127.0.0.1")'),
    (
        "5.2.certificate",
        "client/socket_driver.py",
        "        return context.wrap_socket(sock, server_hostname=server_name)",
        (
            "        context.check_hostname = False\n"
            "        return context.wrap_socket(sock, server_hostname=server_name)"
        ),
    ),
    (
        "4.2.rejected-allowed",
        "client/amqp10/coordinator.py",
        "[SYMBOLS[ACCEPTED], SYMBOLS[REJECTED], SYMBOLS[DECLARED]]",
        "[SYMBOLS[ACCEPTED], SYMBOLS[DECLARED]]",
    ),
    (
        "2.6.12.tag",
        "protocol/amqp10/sender.py",
        ("        w.append(_BINARY8)\n        w.append(8)\n        write_i64_be(w, number)"),
        ("        w.append(_BINARY8)\n        w.append(0)"),
    ),
    (
        "2.6.12.tag-unique",
        "protocol/amqp10/sender.py",
        ("        w.append(8)\n        write_i64_be(w, number)"),
        ("        w.append(8)\n        write_i64_be(w, 1)"),
    ),
    (
        "2.6.14.not-interleaved",
        "protocol/amqp10/receiver.py",
        "    if transfer.delivery_id is not None and transfer.delivery_id != delivery.id:",
        "    if False:",
    ),
    (
        "2.6.14.aborted",
        "protocol/amqp10/receiver.py",
        ("        self._current = None\n        self._drop_held()\n        self.forget(delivery)"),
        ("        self._current = None\n        self.forget(delivery)"),
    ),
    (
        "2.6.14.large",
        "protocol/amqp10/receiver.py",
        ("                held.write(payload)\n                payload = held.getvalue()"),
        "                payload = held.getvalue()",
    ),
    (
        "2.7.5.delivery-id-first",
        "protocol/amqp10/receiver.py",
        "        if delivery_id is None or tag is None:\n",
        ("        delivery_id = delivery_id or 0\n        if tag is None:\n"),
    ),
    (
        "2.7.5.delivery-tag-first",
        "protocol/amqp10/receiver.py",
        "        if tag is None and delivery_id is not None and self.session.connection.is_lenient:",
        "        if tag is None and delivery_id is not None:",
    ),
    (
        "2.7.5.message-format-first",
        "protocol/amqp10/sender.py",
        ("        w.append(_UINT0)\n        w.append(_TRUE if settled else _FALSE)"),
        ("        w.append(0x40)\n        w.append(_TRUE if settled else _FALSE)"),
    ),
    (
        "2.7.5.settled-unset",
        "protocol/amqp10/receiver.py",
        ("        if transfer.settled or self._is_ignored:\n            delivery.is_settled = True"),
        ("        if transfer.settled is not False or self._is_ignored:\n            delivery.is_settled = True"),
    ),
    (
        "2.7.5.settled-inherited",
        "protocol/amqp10/receiver.py",
        ("        if transfer.settled:\n            delivery.sent_settled = True\n"),
        "        delivery.sent_settled = bool(transfer.settled)\n",
    ),
    (
        "2.7.5.settled-never",
        "protocol/amqp10/receiver.py",
        ("        if transfer.settled:\n            delivery.sent_settled = True\n"),
        "        delivery.sent_settled = delivery.sent_settled or not transfer.more\n",
    ),
    (
        "2.7.5.snd-settled",
        "gateway/amqp10/outgoing_link.py",
        "            link.send(self.number, head, body, True)",
        "            link.send(self.number, head, body, False, entry)",
    ),
    (
        "2.7.5.snd-unsettled",
        "gateway/amqp10/outgoing_link.py",
        "            link.send(self.number, head, body, False, entry)",
        "            link.send(self.number, head, body, True)",
    ),
    (
        "2.7.5.aborted-more",
        "protocol/amqp10/receiver.py",
        ("        if transfer.aborted:\n            self._abort(delivery)\n            return"),
        ("        if transfer.aborted and not transfer.more:\n            self._abort(delivery)\n            return"),
    ),
    (
        "2.7.5.aborted-payload",
        "protocol/amqp10/receiver.py",
        (
            "        if transfer.aborted:\n"
            "            self._abort(delivery)\n"
            "            return\n"
            "        if self._is_ignored:"
        ),
        (
            "        if transfer.aborted and start == stop:\n"
            "            self._abort(delivery)\n"
            "            return\n"
            "        if self._is_ignored:"
        ),
    ),
    (
        "2.7.5.rcv-first",
        "protocol/amqp10/receiver.py",
        (
            "        if delivery.settles_second:\n"
            "            self.session.add_disposition(True, delivery.id, state, False)\n"
            "            return\n"
            "        self.forget(delivery)\n"
            "        self.session.add_disposition(True, delivery.id, state, True)"
        ),
        "        self.session.add_disposition(True, delivery.id, state, False)",
    ),
    (
        "2.7.5.rcv-second",
        "protocol/amqp10/receiver.py",
        (
            "        if delivery.settles_second:\n"
            "            self.session.add_disposition(True, delivery.id, state, False)\n"
            "            return\n"
        ),
        "        pass\n",
    ),
    (
        "2.7.5.message-format",
        "gateway/amqp10/incoming_link.py",
        "                self._check_format(delivery)\n            if known",
        "                pass\n            if known",
    ),
    (
        "2.7.5.batchable",
        "protocol/amqp10/receiver.py",
        ("        if transfer.aborted:\n            self._abort(delivery)\n            return"),
        (
            "        if transfer.batchable:\n"
            "            return\n"
            "        if transfer.aborted:\n"
            "            self._abort(delivery)\n"
            "            return"
        ),
    ),
    (
        "3.4.6.tag-1-resend",
        "gateway/amqp10/resumption.py",
        "        link.send_tagged(held.tag, [head, body], False, MESSAGE_FORMAT, None, held.entry)",
        "        pass",
    ),
    (
        "3.4.6.tag-1-not-resumed",
        "gateway/amqp10/resumption.py",
        "        link.send_tagged(held.tag, [head, body], False, MESSAGE_FORMAT, None, held.entry)",
        "        link.resume(held.tag, [head, body], None, False, MESSAGE_FORMAT, held.entry)",
    ),
    (
        "3.4.6.tag-2",
        "gateway/amqp10/resumption.py",
        ("        return [head[position:], body]\n    return [body[position - len(head) :]]"),
        ("        return [head[position + 1 :], body]\n    return [body[position - len(head) + 1 :]]"),
    ),
    (
        "3.4.6.tag-3-resumed",
        "gateway/amqp10/resumption.py",
        "            link.resume(held.tag, [], planned.state, True)",
        "            link.send_tagged(held.tag, [], True)",
    ),
    (
        "3.4.6.tag-3-state",
        "gateway/amqp10/resumption.py",
        "            link.resume(held.tag, [], planned.state, True)",
        "            link.resume(held.tag, [], None, True)",
    ),
    (
        "3.4.6.tag-3",
        "gateway/amqp10/outgoing_link.py",
        "            self.settle_held(held.tag, outcome)",
        "            pass",
    ),
    ("3.4.6.tag-4-resend", "gateway/amqp10/resumption.py", "        return [head, body]\n", "        return [body]\n"),
    (
        "3.4.6.tag-4-resumed",
        "gateway/amqp10/resumption.py",
        "        if action is Action.RESUME:\n",
        "        if False:\n",
    ),
    (
        "3.4.6.tag-5-not-resumed",
        "gateway/amqp10/resumption.py",
        "        link.send_tagged(held.tag, [head, body], False, MESSAGE_FORMAT, None, held.entry)",
        "        link.resume(held.tag, [head, body], None, False, MESSAGE_FORMAT, held.entry)",
    ),
    (
        "3.4.6.tag-6",
        "protocol/amqp10/resumption.py",
        "    return Plan(Action.RESUME, there) if _reaches",
        "    return Plan(Action.RESUME, here) if _reaches",
    ),
    (
        "3.4.6.tag-9",
        "gateway/amqp10/resumption.py",
        "        if action is Action.RESUME:\n",
        "        if action is Action.RESTATE:\n",
    ),
    (
        "3.4.6.tag-10-outcome-final",
        "broker/terminus/terminus.py",
        ("        held = self.unsettled.pop(tag, None)\n        if held is not None:\n            self._apply("),
        ("        held = self.unsettled.get(tag)\n        if held is not None:\n            self._apply("),
    ),
    (
        "3.4.6.outcome-only-when-sure",
        "gateway/amqp10/attach.py",
        "        answer.unsettled = dict.fromkeys(terminus.unsettled)",
        "        answer.unsettled = dict.fromkeys(terminus.unsettled, default_of(source, session.vhost.dialect)[0])",
    ),
    (
        "2.6.13.only-target",
        "gateway/amqp10/resumption.py",
        "        self._to_abort: deque[bytes] = deque()\n",
        "        self._to_abort: deque[bytes] = deque(self._settled_tags)\n",
    ),
    (
        "2.6.13.both",
        "gateway/amqp10/resumption.py",
        "                link.resume(held.tag, rest, planned.state, False, MESSAGE_FORMAT, held.entry)",
        "                link.send_tagged(held.tag, rest, False, MESSAGE_FORMAT, None, held.entry)",
    ),
    (
        "2.6.13.resume-flag",
        "protocol/amqp10/sender.py",
        "        return self._send_long(0, tag, payload, settled, message_format, state, True, mark)",
        "        return self._send_long(0, tag, payload, settled, message_format, state, False, mark)",
    ),
    (
        "2.7.5.resume-own-map",
        "broker/terminus/terminus.py",
        ("        held = self.unsettled.pop(tag, None)\n        if held is not None:\n            self._apply("),
        ("        held = self.unsettled.get(tag)\n        if held is not None:\n            self._apply("),
    ),
    (
        "2.7.5.resume-first-transfer",
        "protocol/amqp10/sender.py",
        ("            resume=resume,\n        )\n        self._rest"),
        ("            resume=False,\n        )\n        self._rest"),
    ),
    (
        "2.7.3.unsettled-compared",
        "gateway/amqp10/resumption.py",
        "[(held, plan(tag, None, theirs, is_complete)) for tag, held in terminus.unsettled.items()]",
        "[(held, plan(tag, None, {}, is_complete)) for tag, held in terminus.unsettled.items()]",
    ),
    (
        "2.7.3.reattach-without-map",
        "gateway/amqp10/attach.py",
        "        theirs = attach.unsettled or {}\n",
        "        theirs = dict.fromkeys(terminus.unsettled) if attach.unsettled is None else attach.unsettled\n",
    ),
    (
        "2.7.3.incomplete-no-new",
        "protocol/amqp10/session.py",
        (
            "            link.only_resumes = True\n"
            "        if is_answer:\n"
            "            assert link.owner is not None\n"
            "            link.owner.on_attached(attach)\n"
            "            return\n"
            "        owner = self.owner\n"
            "        assert owner is not None\n"
            "        link.owner = owner.on_sender"
        ),
        (
            "            pass\n"
            "        if is_answer:\n"
            "            assert link.owner is not None\n"
            "            link.owner.on_attached(attach)\n"
            "            return\n"
            "        owner = self.owner\n"
            "        assert owner is not None\n"
            "        link.owner = owner.on_sender"
        ),
    ),
    (
        "2.7.3.incomplete-rather-than-error",
        "protocol/amqp10/session.py",
        "            attach.incomplete_unsettled = True\n",
        "            pass\n",
    ),
    (
        "2.6.3.unsettled-told",
        "gateway/amqp10/attach.py",
        "        answer.unsettled = dict.fromkeys(terminus.unsettled)",
        "        answer.unsettled = {}",
    ),
    (
        "2.6.5.resume-has-unsettled",
        "protocol/amqp10/session.py",
        "            if link.is_errant and attach.unsettled is None:",
        "            if link.is_errant:",
    ),
    (
        "3.2.no-section-inserted",
        "gateway/amqp10/message_encoder.py",
        "        head = led + sections[bare:]\n",
        '        head = led + b"\\x00Ss\\x45" + sections[bare:]\n',
    ),
    (
        "3.2.encoding-kept",
        "gateway/amqp10/message_encoder.py",
        "        head = led + sections[bare:]\n",
        "        head = led\n",
    ),
    (
        "3.2.sections-in-order",
        "wire/amqp10/sections.py",
        "        if code <= last and not (code == last and (code == spec.DATA or code == spec.AMQP_SEQUENCE)):",
        "        if False:",
    ),
    (
        "3.2.1.defaults",
        "gateway/amqp10/message_encoder.py",
        "header.priority, ttl, is_new",
        "header.priority + 1, ttl, is_new",
    ),
    (
        "3.2.1.durable-survives",
        "gateway/amqp10/codec.py",
        "    return _centred(MessageOptions(header.durable is True, priority, ttl))",
        "    return _centred(MessageOptions(False, priority, ttl))",
    ),
    (
        "3.2.1.durable-incapable",
        "broker/dialect.py",
        "        self.refuses_what_it_loses = specified",
        "        self.refuses_what_it_loses = False",
    ),
    (
        "3.2.1.durable-as-in-rabbitmq",
        "broker/dialect.py",
        "        self.refuses_what_it_loses = specified",
        "        self.refuses_what_it_loses = True",
    ),
    (
        "3.2.1.priority-levels",
        "broker/message.py",
        "            lowest: i64 = 5 - (highest + 2) // 2",
        "            lowest: i64 = 0",
    ),
    (
        "3.2.1.priority-lowest",
        "broker/message.py",
        "            lowest: i64 = 5 - (highest + 2) // 2",
        "            lowest: i64 = 0",
    ),
    (
        "3.2.1.priority-highest",
        "broker/message.py",
        "            return min(highest, max(0, self.priority - lowest))",
        "            return max(0, self.priority - lowest)",
    ),
    (
        "3.2.1.priority-distinct",
        "broker/message.py",
        "            return min(highest, max(0, self.priority - lowest))",
        "            return 0 if self.priority <= 4 else highest",
    ),
    (
        "3.2.1.priority-ten-or-more",
        "broker/message.py",
        "        return min(highest, self.priority)\n",
        "        return min(highest, max(0, self.priority - 1))\n",
    ),
    (
        "3.2.1.ttl-reduced",
        "gateway/amqp10/message_encoder.py",
        "            ttl = max(0, ttl - int(self._tick.now_ms - message.timestamp_ms))",
        "            ttl = max(0, ttl)",
    ),
    (
        "3.2.1.ttl-expires",
        "gateway/amqp10/codec.py",
        "    ttl: i64 = FOREVER if header.ttl is None else header.ttl",
        "    ttl: i64 = FOREVER",
    ),
    (
        "3.2.1.first-acquirer",
        "gateway/amqp10/message_encoder.py",
        "ttl, is_new, min(returns, _UINT_MAX))",
        "ttl, True, min(returns, _UINT_MAX))",
    ),
    (
        "3.2.1.delivery-count-first",
        "gateway/amqp10/message_encoder.py",
        "ttl, is_new, min(returns, _UINT_MAX))",
        "ttl, is_new, min(returns + 1, _UINT_MAX))",
    ),
    (
        "3.2.2.by-capabilities",
        "gateway/amqp10/message_encoder.py",
        "        led = encoded + annotations\n",
        '        led = encoded + b"\\x00Sq\\xc1\\x01\\x00" + annotations\n',
    ),
    (
        "3.2.2.rejected-is-an-error",
        "gateway/amqp10/message_parser.py",
        "            raise InvalidField(f\"the delivery-annotation '{_REJECTED}' is an error\", SCOPE_LINK)",
        "            pass",
    ),
    (
        "3.2.2.not-forwarded",
        "gateway/amqp10/message_parser.py",
        "            lead = payload[: found.delivery_annotations] + payload[stop : found.bare]",
        "            pass",
    ),
    (
        "3.2.3.propagated",
        "gateway/amqp10/message_encoder.py",
        "        led = encoded + annotations\n",
        "        led = encoded\n",
    ),
    (
        "3.2.3.unaltered-unless-modified",
        "gateway/amqp10/message_encoder.py",
        "        annotations = self._with_address(sections[header_end:bare], address)",
        '        annotations = self._with_address(b"", address)',
    ),
    (
        "3.2.10.x-opt-ignored",
        "gateway/amqp10/annotations.py",
        "        if is_strict and not key.startswith(_OPTIONAL) and key not in _UNDERSTOOD:",
        "        if is_strict and key not in _UNDERSTOOD:",
    ),
    (
        "3.2.10.not-understood",
        "gateway/amqp10/annotations.py",
        "        if is_strict and not key.startswith(_OPTIONAL) and key not in _UNDERSTOOD:",
        "        if False:",
    ),
    (
        "3.2.10.of-outcomes",
        "gateway/amqp10/annotations.py",
        "    outcome = state.outcome if isinstance(state, TransactionalState) else state\n",
        "    outcome = None\n",
    ),
    (
        "3.2.10.as-in-rabbitmq",
        "gateway/amqp10/annotations.py",
        "        if is_strict and not key.startswith(_OPTIONAL) and key not in _UNDERSTOOD:",
        "        if not key.startswith(_OPTIONAL) and key not in _UNDERSTOOD:",
    ),
    (
        "3.2.4.properties-unaltered",
        "gateway/amqp10/message_encoder.py",
        "        head = led + sections[bare:]\n",
        "        head = led\n",
    ),
    (
        "3.2.11.message-ids",
        "gateway/amqp10/message_encoder.py",
        "        head = led + sections[bare:]\n",
        "        head = led\n",
    ),
    (
        "3.2.4.content-type-unknown",
        "gateway/conversion/to_amqp10.py",
        (
            "    if properties.content_type is not None and properties.content_type.isascii():\n"
            "        found.content_type = properties.content_type"
        ),
        '    found.content_type = properties.content_type or "text/plain"',
    ),
    (
        "3.2.4.content-type-opaque",
        "gateway/conversion/to_amqp10.py",
        "        found.content_type = properties.content_type\n",
        "        found.content_type = None\n",
    ),
    (
        "3.2.4.content-type-data-only",
        "gateway/amqp10/message_encoder.py",
        "        head = led + sections[bare:]\n",
        '        head = led + b"\\x00Ss\\xc0\\x0a\\x07@@@@@@\\xa3\\x01x" + sections[bare:]\n',
    ),
    (
        "3.2.4.content-encoding-data-only",
        "gateway/conversion/to_amqp10.py",
        ("    if content is None or _is_data(content):\n        found.content_encoding"),
        ("    if True:\n        found.content_encoding"),
    ),
    (
        "3.2.4.no-identity-encoding",
        "gateway/conversion/to_amqp10.py",
        "    left = [each for each in encodings if each.strip().lower() != _IDENTITY]",
        "    left = encodings",
    ),
    (
        "3.2.4.content-encoding-unset",
        "gateway/conversion/to_amqp10.py",
        ("    if said is None or not said.isascii():\n        return None"),
        ('    if said is None or not said.isascii():\n        return "gzip"'),
    ),
    (
        "3.2.4.no-compress-encoding",
        "gateway/conversion/to_amqp10.py",
        ("    if said is None or not said.isascii():\n        return None"),
        ('    if said is None or not said.isascii():\n        return "compress"'),
    ),
    (
        "3.2.4.no-several-encodings",
        "gateway/conversion/to_amqp10.py",
        ("    if said is None or not said.isascii():\n        return None"),
        ('    if said is None or not said.isascii():\n        return "gzip,deflate"'),
    ),
    (
        "3.2.5.application-properties",
        "gateway/amqp10/message_encoder.py",
        "        head = led + sections[bare:]\n",
        "        head = led\n",
    ),
    (
        "3.2.6.data-sections",
        "gateway/amqp10/message_encoder.py",
        "            self.body = message.body\n",
        "            self.body = message.body[:-1]\n",
    ),
    (
        "3.2.7.sequence-sections",
        "gateway/amqp10/message_encoder.py",
        "            self.body = message.body\n",
        "            self.body = message.body[:-1]\n",
    ),
    (
        "3.2.8.value-types",
        "gateway/amqp10/message_encoder.py",
        "            self.body = message.body\n",
        "            self.body = message.body[:-1]\n",
    ),
    (
        "3.2.9.footer",
        "gateway/amqp10/message_parser.py",
        "        self.body = payload[found.body :]\n",
        "        self.body = payload[found.body : found.footer] if found.footer != ABSENT else payload[found.body :]\n",
    ),
    (
        "2.6.7.delivery-limit",
        "protocol/amqp10/sender.py",
        ("            self.credit > 0\n            and self._rest is None"),
        "            self._rest is None",
    ),
    (
        "2.6.7.credit-formula",
        "protocol/amqp10/sender.py",
        "            credit: i64 = flow.link_credit + distance(self.delivery_count, count)",
        "            credit: i64 = flow.link_credit",
    ),
    (
        "2.6.7.unknown-delivery-count",
        "protocol/amqp10/sender.py",
        "self.initial_delivery_count if flow.delivery_count is None else flow.delivery_count",
        "self.delivery_count if flow.delivery_count is None else flow.delivery_count",
    ),
    (
        "2.6.7.count-and-credit",
        "protocol/amqp10/sender.py",
        "            self.credit = min(max(0, credit), UINT_MAX)",
        "            self.credit = max(0, credit) + (1 if credit > 0 else 0)",
    ),
    (
        "2.6.7.available-floor",
        "protocol/amqp10/receiver.py",
        "        return max(0, self.available - distance(self._available_at, self.delivery_count))",
        "        return self.available",
    ),
    (
        "2.6.7.drain",
        "protocol/amqp10/sender.py",
        (
            "        self.delivery_count = after(self.delivery_count, self.credit)\n"
            "        self.credit = 0\n"
            "        self.session.owe_flow(self)"
        ),
        "        self.credit = 0",
    ),
    (
        "2.6.7.available",
        "gateway/amqp10/outgoing_link.py",
        "        return min(self.queue.available_to(self.consumer), UINT_MAX)",
        "        return 0",
    ),
    (
        "2.6.8.synchronous-get",
        "gateway/amqp10/outgoing_link.py",
        ("        if link.drain:\n            self.session.connection.drain(self)"),
        "        pass",
    ),
    (
        "2.6.10.stop",
        "protocol/amqp10/sender.py",
        "            self.credit = min(max(0, credit), UINT_MAX)",
        "            self.credit = max(self.credit, credit)",
    ),
    (
        "2.8.18.transfer-limit",
        "protocol/amqp10/receiver.py",
        "            raise TransferLimitExceeded(f\"link '{self.name}' has no credit left\")",
        "            raise InvalidField(f\"link '{self.name}' has no credit left\")",
    ),
    (
        "2.6.1.unique",
        "gateway/amqp10/names.py",
        ("        link = self._links.pop(key, None)\n        if link is not None:\n            link.stolen()"),
        "        self._links.pop(key, None)",
    ),
    (
        "2.6.1.others",
        "gateway/amqp10/ports.py",
        "        return self.vhost.name, *self.key(name), is_receiver",
        "        return self.vhost.name, *self.key(name), True",
    ),
    (
        "2.6.3.no-terminus",
        "protocol/amqp10/link.py",
        ("        answer = Attach()\n        if self.is_receiver:\n            answer.source = peer.source"),
        (
            "        answer = Attach(source=peer.source, target=peer.target)\n"
            "        if self.is_receiver:\n"
            "            answer.source = peer.source"
        ),
    ),
    (
        "2.6.3.actual-properties",
        "gateway/amqp10/attach.py",
        "    answer = Attach(source=source, target=attach.target, properties=attach.properties)",
        "    answer = Attach(source=Source(address=source.address), target=attach.target, properties=attach.properties)",
    ),
    (
        "2.6.3.peer-verifies",
        "protocol/amqp10/session.py",
        ("        self._by_remote_handle[handle] = None\n        link.detached(detach, from_wire(detach.error))"),
        "        self._by_remote_handle[handle] = None",
    ),
    (
        "2.6.3.not-pre-empted",
        "gateway/amqp10/attach.py",
        "    source.outcomes = [name for name in source.outcomes if name in OUTCOMES] or OUTCOMES",
        (
            "    if any(name not in OUTCOMES for name in source.outcomes):\n"
            '        raise InvalidField("outcomes", SCOPE_LINK)'
        ),
    ),
    (
        "2.6.4.detach-answered",
        "protocol/amqp10/link.py",
        "        self.session.send_detach(self, Detach(closed=detach.closed))",
        "        pass",
    ),
    (
        "2.6.5.detached-with-error",
        "protocol/amqp10/link.py",
        "        self.session.send_detach(self, Detach(closed=closed, error=to_wire(error)))",
        "        self.session.send_detach(self, Detach(closed=closed))",
    ),
    (
        "2.6.5.endpoint-destroyed",
        "protocol/amqp10/session.py",
        ("        self._by_remote_handle[handle] = None\n        link.detached("),
        "        link.detached(",
    ),
    (
        "2.6.5.errant-link",
        "protocol/amqp10/link.py",
        "        self.is_errant = True\n",
        "        self.is_errant = False\n",
    ),
    (
        "2.6.5.resumed-not-reattached",
        "protocol/amqp10/session.py",
        "            if link.is_errant and attach.unsettled is None:",
        "            if link.is_errant:",
    ),
    (
        "2.6.5.pipelined-reattach",
        "protocol/amqp10/session.py",
        "            if link.is_errant and attach.unsettled is None:",
        "            if False:",
    ),
    (
        "2.6.6.close-answered-with-close",
        "protocol/amqp10/link.py",
        "        self.session.send_detach(self, Detach(closed=detach.closed))",
        "        self.session.send_detach(self, Detach(closed=False))",
    ),
    (
        "2.7.3.handle-single",
        "protocol/amqp10/session.py",
        ("        self._by_remote_handle[handle] = None\n        link.detached("),
        "        link.detached(",
    ),
    (
        "2.7.3.handle-in-use",
        "protocol/amqp10/session.py",
        '            raise HandleInUse(f"handle {handle} is that of another link")',
        '            raise UnattachedHandle(f"handle {handle} is that of another link")',
    ),
    (
        "2.7.3.initial-delivery-count",
        "protocol/amqp10/session.py",
        "        if not attach.role and attach.initial_delivery_count is None:",
        "        if False:",
    ),
    (
        "2.7.3.max-message-size",
        "protocol/amqp10/receiver.py",
        (
            "        if self.message_max != 0 and delivery.size > self.message_max:\n"
            "            raise MessageSizeExceeded"
        ),
        ("        if False:\n            raise MessageSizeExceeded"),
    ),
    (
        "2.8.18.stolen",
        "gateway/amqp10/outgoing_link.py",
        "        self.link.detach(LinkStolen(f\"link '{self.link.name}' was attached somewhere else\"), closed=False)",
        "        self.link.detach(ResourceDeleted(f\"link '{self.link.name}' was attached somewhere else\"), closed=False)",
    ),
    (
        "2.7.4.handle-unattached",
        "protocol/amqp10/session.py",
        'raise UnattachedHandle(f"{performative.type_name} on handle {handle}, to which no link is attached")',
        'raise InvalidField(f"{performative.type_name} on handle {handle}, to which no link is attached")',
    ),
    (
        "2.7.4.delivery-count-with-handle",
        "protocol/amqp10/session.py",
        "            flow.delivery_count is not None or flow.link_credit is not None or flow.available is not None or flow.drain\n",
        "            flow.link_credit is not None or flow.available is not None or flow.drain\n",
    ),
    (
        "2.7.4.link-credit-with-handle",
        "protocol/amqp10/session.py",
        "            flow.delivery_count is not None or flow.link_credit is not None or flow.available is not None or flow.drain\n",
        "            flow.delivery_count is not None or flow.available is not None or flow.drain\n",
    ),
    (
        "2.7.4.available-with-handle",
        "protocol/amqp10/session.py",
        "            flow.delivery_count is not None or flow.link_credit is not None or flow.available is not None or flow.drain\n",
        "            flow.delivery_count is not None or flow.link_credit is not None or flow.drain\n",
    ),
    (
        "2.7.4.drain-with-handle",
        "protocol/amqp10/session.py",
        "            flow.delivery_count is not None or flow.link_credit is not None or flow.available is not None or flow.drain\n",
        "            flow.delivery_count is not None or flow.link_credit is not None or flow.available is not None\n",
    ),
    (
        "2.7.4.delivery-count-of-sender",
        "protocol/amqp10/sender.py",
        "            delivery_count=self.delivery_count,\n",
        "            delivery_count=self.initial_delivery_count,\n",
    ),
    (
        "2.7.4.delivery-count-of-receiver",
        "protocol/amqp10/receiver.py",
        "            delivery_count=self.delivery_count,\n",
        "            delivery_count=0,\n",
    ),
    (
        "2.7.4.delivery-count-unknown",
        "protocol/amqp10/sender.py",
        "self.initial_delivery_count if flow.delivery_count is None else flow.delivery_count",
        "-flow.link_credit if flow.delivery_count is None else flow.delivery_count",
    ),
    (
        "2.6.7.echo",
        "protocol/amqp10/session.py",
        ("        elif flow.echo:\n            self._owe_window()"),
        ("        elif False:\n            self._owe_window()"),
    ),
    (
        "2.7.6.direction",
        "protocol/amqp10/session.py",
        "        unsettled = self.outgoing if disposition.role else self.incoming",
        "        unsettled = self.incoming if disposition.role else self.outgoing",
    ),
    (
        "2.7.6.live",
        "protocol/amqp10/session.py",
        "        unsettled = self.outgoing if disposition.role else self.incoming",
        "        unsettled = self.incoming",
    ),
    (
        "2.7.6.several-links",
        "protocol/amqp10/session.py",
        ("        for delivery in found:\n            if not self.is_listening:"),
        (
            "        for delivery in [each for each in found if each.link is found[0].link]:\n"
            "            if not self.is_listening:"
        ),
    ),
    (
        "2.7.6.range",
        "protocol/amqp10/session.py",
        "        last: i64 = first if disposition.last is None else disposition.last",
        "        last: i64 = first",
    ),
    (
        "1.6.every-type",
        "wire/amqp10/reader.py",
        ("        if code == types.SMALLINT:\n            return Int(signed)"),
        ("        if code == types.SMALLINT:\n            return Int(octet)"),
    ),
    (
        "1.6.malformed",
        "wire/amqp10/frames.py",
        ("    if reader.pos != reader.end:\n        raise DecodeError("),
        ("    if False:\n        raise DecodeError("),
    ),
    (
        "1.4.multiple-mandatory",
        "wire/amqp10/reader.py",
        ("        if code != types.ARRAY8 and code != types.ARRAY32:\n            return [self.symbol()]"),
        ("        if False:\n            return [self.symbol()]"),
    ),
    (
        "3.5.6.link-detach",
        "broker/terminus/terminus.py",
        ("        if self.record.expiry == LINK_DETACH:\n            self._expire_later()"),
        "        pass",
    ),
    (
        "3.5.6.session-end",
        "broker/terminus/terminus.py",
        "        if self.record.expiry in (LINK_DETACH, SESSION_END):",
        "        if self.record.expiry == LINK_DETACH:",
    ),
    (
        "3.5.6.connection-close",
        "broker/terminus/terminus.py",
        ("        if self.record.expiry != NEVER:\n            self._expire_later()\n\n    def expire"),
        ("        pass\n\n    def expire"),
    ),
    (
        "3.5.6.never",
        "broker/terminus/terminus.py",
        ("        if self.record.expiry != NEVER:\n            self._expire_later()\n\n    def expire"),
        ("        self._expire_later()\n\n    def expire"),
    ),
    (
        "3.5.6.reattach-stops-the-clock",
        "broker/terminus/terminus.py",
        "            self._termini.timers.at(self._termini.now_ms + self.record.timeout_ms, self)",
        (
            '            self._due = getattr(self, "_due", 0) or self._termini.now_ms + self.record.timeout_ms\n'
            "            self._termini.timers.at(self._due, self)"
        ),
    ),
    ("3.5.5.none", "broker/terminus/registry.py", "        if durability > NONE:\n", "        if True:\n"),
    (
        "3.5.5.configuration",
        "broker/terminus/registry.py",
        "        if durability > NONE:\n",
        "        if durability > NONE + 1:\n",
    ),
    (
        "3.5.5.unsettled-state-source",
        "broker/terminus/terminus.py",
        ("        if self.keeps_notes:\n            self._write(held)\n        return held"),
        "        return held",
    ),
    (
        "3.5.5.unsettled-state-copy",
        "broker/terminus/terminus.py",
        "        seen = self.seen if self.keeps_notes else None",
        "        seen = None",
    ),
    (
        "3.5.5.unsettled-state-target",
        "broker/terminus/terminus.py",
        (
            "        if self.keeps_notes:\n"
            "            received.notes.append(self._notes.write(_OUTCOME + _with_length(tag) + outcome))"
        ),
        ("        if False:\n            pass"),
    ),
)

# Rows that no change of the sources breaks alone, and why.
WITHOUT: Final[dict[str, str]] = {"5.3.3.best-mechanism": "does not hold yet: there is nothing to break"}

// rhea by remote control, as agent.mjs is amqplib: a command a line, answers and events as they come.
import { createInterface } from 'node:readline';
import rhea from 'rhea';

const container = rhea.create_container();
const links = new Map();
const deliveries = new Map();
let connection;
let count = 0;

function pack(value) {
  if (Buffer.isBuffer(value)) return { $bytes: value.toString('base64') };
  if (value instanceof Date) return { $time: value.getTime() };
  if (Array.isArray(value)) return value.map(pack);
  if (value === null || typeof value !== 'object') return value;
  if (value.typecode === 0x75) return { $data: pack(value.content) };
  return Object.fromEntries(Object.entries(value).map(([name, item]) => [name, pack(item)]));
}

function unpack(value) {
  if (Array.isArray(value)) return value.map(unpack);
  if (value === null || typeof value !== 'object') return value;
  if (typeof value.$bytes === 'string') return Buffer.from(value.$bytes, 'base64');
  if ('$data' in value) return rhea.message.data_section(unpack(value.$data));
  return Object.fromEntries(Object.entries(value).map(([name, item]) => [name, unpack(item)]));
}

const say = (line) => process.stdout.write(`${JSON.stringify(line)}\n`);
const fault = (error) => ({ code: 0, text: `${error?.condition ?? 'failed'}: ${error?.description ?? error?.message ?? ''}` });

// The first of these events: the value it stands for, or a refusal.
function once(emitter, good, bad) {
  return new Promise((resolve, reject) => {
    good.forEach((name) => emitter.once(name, resolve));
    bad.forEach((name) => emitter.once(name, (context) => {
      reject(context.error ?? context.receiver?.error ?? context.sender?.error ?? context.connection?.error ?? context);
    }));
  });
}

// rhea hands out a null terminus as an object that stands for null.
const isMissing = (terminus) => JSON.stringify(terminus ?? null) === 'null';

// A refused link is opened without a terminus, and then closed with the reason.
async function opened(link, side, terminus) {
  const refused = once(link, [], [`${side}_error`]);
  refused.catch(() => {});
  await Promise.race([once(link, [`${side}_open`], []), refused]);
  if (isMissing(terminus())) await refused;
}

const filters = {
  selector: (text) => rhea.filter.selector(text),
  offset: (start) => ({ 'rabbitmq:stream-offset-spec': rhea.types.wrap_described(start, 'rabbitmq:stream-offset-spec') }),
};

const commands = {
  async connect(_, options) {
    connection = container.connect({ reconnect: false, ...options });
    connection.on('disconnected', () => say({ event: 'disconnected', channel: 0 }));
    await once(connection, ['connection_open'], ['connection_error', 'error', 'disconnected']);
    return connection.remote.open.properties;
  },

  async sender(id, options) {
    const link = connection.open_sender(options);
    links.set(id, link);
    link.on('sender_error', () => {});
    await opened(link, 'sender', () => link.remote.attach.target);
    return pack(link.remote.attach.target);
  },

  // The outcome of the delivery, and what the broker says of it.
  async send(id, message) {
    const link = links.get(id);
    if (!link.sendable()) await once(link, ['sendable'], ['sender_error']);
    const delivery = link.send(unpack(message));
    if (delivery.settled) return 'settled';
    return new Promise((resolve) => {
      for (const outcome of ['accepted', 'rejected', 'released', 'modified']) {
        const listener = (context) => {
          if (context.delivery === delivery) resolve(outcome);
        };
        link.on(outcome, listener);
      }
    });
  },

  // All are written before any is settled.
  async sendAll(id, messages) {
    const link = links.get(id);
    let accepted = 0;
    const done = new Promise((resolve) => {
      link.on('accepted', () => {
        accepted += 1;
        if (accepted === messages.length) resolve(accepted);
      });
    });
    for (const message of messages) {
      if (!link.sendable()) await once(link, ['sendable'], ['sender_error']);
      link.send(unpack(message));
    }
    return done;
  },

  async receiver(id, options, asked) {
    const source = { ...options.source };
    if (asked) source.filter = Object.assign({}, ...Object.entries(asked).map(([name, value]) => filters[name](value)));
    const link = connection.open_receiver({ autoaccept: false, credit_window: 0, ...options, source });
    links.set(id, link);
    link.on('message', ({ message, delivery }) => {
      count += 1;
      deliveries.set(count, delivery);
      say({ event: 'message', channel: id, number: count, message: pack({ ...message }) });
    });
    link.on('receiver_drained', () => say({ event: 'drained', channel: id }));
    link.on('receiver_error', () => say({ event: 'error', channel: id, ...fault(link.error) }));
    await opened(link, 'receiver', () => link.remote.attach.source);
    return pack({ address: link.remote.attach.source?.address, filter: Object.keys(link.remote.attach.source?.filter ?? {}) });
  },

  async credit(id, number) {
    links.get(id).add_credit(number);
  },

  async drain(id) {
    links.get(id).drain_credit();
  },

  async settle(_, number, how, ...args) {
    deliveries.get(number)[how](...unpack(args));
    deliveries.delete(number);
  },

  async close(id) {
    const link = links.get(id);
    link.close();
    await once(link, [link.is_sender() ? 'sender_close' : 'receiver_close'], []);
  },

  async disconnect() {
    connection.close();
    await once(connection, ['connection_close'], []);
  },
};

for await (const line of createInterface({ input: process.stdin })) {
  const { id, command, channel, args } = JSON.parse(line);
  commands[command](channel, ...args).then(
    (value) => say({ id, value: value ?? null }),
    (error) => say({ id, ...fault(error), failed: true }),
  );
}
process.exit(0);

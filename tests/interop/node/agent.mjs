// amqplib by remote control: reads one JSON command a line, answers in order of completion, reports events as they come.
import { createInterface } from 'node:readline';
import amqp from 'amqplib';

const channels = new Map();
let connection;

// Bytes travel as {"$bytes": base64}, within messages and tables too.
function pack(value) {
  if (Buffer.isBuffer(value)) return { $bytes: value.toString('base64') };
  if (Array.isArray(value)) return value.map(pack);
  if (value === null || typeof value !== 'object') return value;
  return Object.fromEntries(Object.entries(value).map(([name, item]) => [name, pack(item)]));
}

function unpack(value) {
  if (Array.isArray(value)) return value.map(unpack);
  if (value === null || typeof value !== 'object') return value;
  if (typeof value.$bytes === 'string') return Buffer.from(value.$bytes, 'base64');
  return Object.fromEntries(Object.entries(value).map(([name, item]) => [name, unpack(item)]));
}

const say = (line) => process.stdout.write(`${JSON.stringify(line)}\n`);
const fault = (error) => ({ code: error.code ?? 0, text: error.message });

const commands = {
  async connect(_, url, options) {
    connection = await amqp.connect(url, options);
    connection.on('error', (error) => say({ event: 'error', channel: 0, ...fault(error) }));
    connection.on('close', (error) => say({ event: 'close', channel: 0, ...(error ? fault(error) : {}) }));
    return pack(connection.connection.serverProperties);
  },

  async open(number, confirms) {
    const channel = confirms ? await connection.createConfirmChannel() : await connection.createChannel();
    channel.on('error', (error) => say({ event: 'error', channel: number, ...fault(error) }));
    channel.on('return', (message) => say({ event: 'return', channel: number, message: pack(message) }));
    channels.set(number, channel);
  },

  async publish(number, exchange, key, content, options) {
    const channel = channels.get(number);
    if (!channel.waitForConfirms) return channel.publish(exchange, key, content, options);
    await new Promise((resolve, reject) => {
      channel.publish(exchange, key, content, options, (error) => (error ? reject(error) : resolve()));
    });
    return true;
  },

  // All are written before any is confirmed.
  async publishAll(number, queue, contents, options) {
    const channel = channels.get(number);
    for (const content of contents) channel.sendToQueue(queue, content, options);
    await channel.waitForConfirms();
  },

  async consume(number, queue, options) {
    let tag = '';
    const reply = await channels.get(number).consume(queue, (message) => {
      say(message ? { event: 'delivery', channel: number, message: pack(message) } : { event: 'cancel', channel: number, tag });
    }, options);
    tag = reply.consumerTag;
    return tag;
  },

  async call(number, method, ...args) {
    return pack(await channels.get(number)[method](...args));
  },

  async close() {
    await connection.close();
  },
};

for await (const line of createInterface({ input: process.stdin })) {
  const { id, command, channel, args } = JSON.parse(line);
  commands[command](channel, ...unpack(args)).then(
    (value) => say({ id, value: value ?? null }),
    (error) => say({ id, ...fault(error), failed: true }),
  );
}
process.exit(0);

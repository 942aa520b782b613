// Owns the way of `ws` on Node: one `send` for each viewer.
'use strict';

const { createInterface } = require('node:readline');
const { setTimeout: sleep } = require('node:timers/promises');
const { WebSocketServer } = require('ws');

async function obey(viewers) {
  for await (const line of createInterface({ input: process.stdin })) {
    const [messages, size, times, interval] = line.split(' ').map(Number);
    for (let turn = 0; turn < times; turn += 1) {
      for (let message = 0; message < messages; message += 1) {
        const text = Buffer.from(`${Date.now() / 1000} `.padEnd(size, '.'));
        for (const viewer of viewers) viewer.send(text, { binary: false });
      }
      await sleep(1000 * interval);
    }
    console.log('done');
  }
}

const server = new WebSocketServer({ host: '127.0.0.1', port: 0, perMessageDeflate: false });
server.on('listening', () => {
  console.log(server.address().port, process.pid);
  obey(server.clients).then(() => process.exit());
});

import assert from "node:assert/strict";
import { test } from "node:test";

import { Connection } from "../../static/live/socket.js";

/** A browser without a network or a clock: both are moved by hand. */
function world() {
  const sockets = [];
  const timers = new Map();
  let now = 1_000;
  let ids = 0;
  const ports = {
    open(address) {
      const socket = { address, readyState: 1, sent: [], closed: false, send: (text) => socket.sent.push(JSON.parse(text)), close: () => { socket.closed = true; } };
      sockets.push(socket);
      return socket;
    },
    now: () => now,
    random: () => 0.5,
    setTimer: (action, ms) => (timers.set((ids += 1), { action, due: now + ms }), ids),
    clearTimer: (id) => timers.delete(id),
  };
  const pass = (ms) => {
    const end = now + ms;
    for (;;) {
      const next = [...timers].filter(([, timer]) => timer.due <= end).sort((a, b) => a[1].due - b[1].due)[0];
      if (!next) break;
      timers.delete(next[0]);
      now = next[1].due;
      next[1].action();
    }
    now = end;
  };
  return { sockets, ports, pass, last: () => sockets.at(-1) };
}

function connect(place = () => "", names = ["socket"]) {
  const browser = world();
  const frames = [];
  const statuses = [];
  const connection = new Connection({ ways: names.map((name) => ({ name, address: () => `ws://x/live/ep-1${place()}`, open: browser.ports.open, deadAfterMs: name === "socket" ? 20_000 : 45_000 })), onFrame: (frame) => frames.push(frame), onStatus: (status) => statuses.push(status), ports: browser.ports });
  connection.open();
  const hear = (frame) => browser.last().onmessage({ data: typeof frame === "string" ? frame : JSON.stringify(frame) });
  return { ...browser, connection, frames, statuses, hear, phase: () => statuses.at(-1).phase };
}

const hello = { frame: "hello", protocol: 1, episode_id: "ep-1", epoch: "e1", head_seq: 0, viewers: 1 };

test("it says what it does: connecting, open, waiting, connecting again", () => {
  const it = connect();
  it.hear(hello);
  it.last().onclose({ reason: "" });
  it.pass(20_000);
  assert.deepEqual(it.statuses.map((status) => status.phase), ["connecting", "open", "waiting", "connecting"]);
});

test("each attempt waits longer, a greeting starts anew", () => {
  const it = connect();
  const waits = [];
  for (let attempt = 0; attempt < 6; attempt += 1) {
    it.last().onclose({ reason: "" });
    waits.push(it.statuses.at(-1).retryInMs);
    it.pass(20_000);
  }
  assert.deepEqual(waits, [750, 1_250, 2_250, 4_250, 7_750, 7_750]);
  it.hear(hello);
  it.last().onclose({ reason: "" });
  assert.equal(it.statuses.at(-1).retryInMs, 750);
});

test("it comes back saying what it has", () => {
  let seq = 0;
  const it = connect(() => (seq ? `?seq=${seq}` : ""));
  it.hear(hello);
  seq = 12;
  it.last().onclose({ reason: "" });
  it.pass(20_000);
  assert.deepEqual(it.sockets.map((socket) => socket.address), ["ws://x/live/ep-1", "ws://x/live/ep-1?seq=12"]);
});

test("a bye that says so is final, one that does not is not", () => {
  const it = connect();
  it.hear(hello);
  it.hear({ frame: "bye", code: 1012, reconnect: true, reason: "the server restarts" });
  it.last().onclose({ reason: "" });
  assert.equal(it.phase(), "waiting");
  assert.equal(it.statuses.at(-1).reason, "the server restarts");
  it.pass(20_000);
  it.hear(hello);
  it.hear({ frame: "bye", code: 4001, reconnect: false, reason: "no such episode" });
  it.last().onclose({ reason: "" });
  assert.equal(it.phase(), "closed");
  it.pass(60_000);
  assert.equal(it.sockets.length, 2);
});

test("silence is noticed and ended", () => {
  const it = connect();
  it.hear(hello);
  const first = it.last();
  it.pass(26_000);
  assert.ok(first.closed);
  assert.ok(it.sockets.length >= 2);
  assert.ok(first.sent.length >= 3, "it asked for signs of life meanwhile");
  first.onclose({ reason: "late" });
  assert.notEqual(it.phase(), "waiting", "the end of a connection that was given up is not news");
});

test("what answers keeps it open", () => {
  const it = connect();
  it.hear(hello);
  for (let second = 0; second < 60; second += 4) {
    it.pass(4_000);
    it.hear({ frame: "pong", t: 1 });
  }
  assert.equal(it.sockets.length, 1);
});

test("garbage ends the connection, not the page; a frame from the future is passed over", () => {
  const it = connect();
  it.hear(hello);
  it.hear('{"frame":"hologram"}');
  assert.equal(it.phase(), "open");
  it.hear("garbage");
  assert.equal(it.phase(), "waiting");
  assert.match(it.statuses.at(-1).reason, /unreadable/);
  it.pass(20_000);
  it.hear(hello);
  assert.equal(it.phase(), "open");
});

test("waking retries at once when it waited, asks when it was quiet, reconnects when it slept long", () => {
  const it = connect();
  it.last().onclose({ reason: "" });
  it.connection.wake();
  assert.equal(it.sockets.length, 2);
  it.hear(hello);
  const sent = it.last().sent.length;
  it.connection.wake();
  assert.equal(it.last().sent.length, sent + 1);
  it.ports.now = () => 1e9;
  it.connection.wake();
  assert.equal(it.sockets.length, 3);
});

test("closed is closed: neither waking nor time opens it", () => {
  const it = connect();
  it.hear(hello);
  it.connection.close("");
  it.connection.wake();
  it.connection.resync();
  it.pass(60_000);
  assert.equal(it.sockets.length, 1);
  assert.ok(it.last().closed);
});

test("a way that is not answered twice gives way to the next, and the one that answers is kept", () => {
  const it = connect(() => "", ["socket", "stream"]);
  const ways = () => it.statuses.filter((status) => status.phase === "connecting").map((status) => status.way);
  for (let attempt = 0; attempt < 2; attempt += 1) {
    it.last().onclose({ reason: "" });
    it.pass(20_000);
  }
  assert.deepEqual(ways(), ["socket", "socket", "stream"]);
  it.hear(hello);
  assert.deepEqual([it.phase(), it.statuses.at(-1).way], ["open", "stream"]);
  for (let attempt = 0; attempt < 2; attempt += 1) {
    it.last().onclose({ reason: "" });
    it.pass(20_000);
    it.hear(hello);
  }
  assert.deepEqual(ways().slice(3), ["stream", "stream"]);
  it.last().onclose({ reason: "" });
  it.pass(20_000);
  for (let attempt = 0; attempt < 2; attempt += 1) {
    it.last().onclose({ reason: "" });
    it.pass(20_000);
  }
  assert.equal(ways().at(-1), "socket", "then the first is tried again");
});

/** A socket was answered, the server went away for two attempts, and the stream was answered. */
function sentToTheStream() {
  const it = connect(() => "", ["socket", "stream"]);
  it.hear(hello);
  for (let attempt = 0; attempt < 3; attempt += 1) {
    it.last().onclose({ reason: "" });
    it.pass(5_000);
  }
  it.hear(hello);
  assert.deepEqual([it.phase(), it.statuses.at(-1).way], ["open", "stream"]);
  return it;
}

test("who was sent to a lesser way by a restart comes back to the better one", () => {
  const it = sentToTheStream();
  const stream = it.last();
  it.pass(12_000);
  assert.ok(stream.closed, "never two at once");
  it.hear(hello);
  assert.deepEqual([it.phase(), it.statuses.at(-1).way], ["open", "socket"]);
  const opened = it.sockets.length;
  it.pass(19_000);
  assert.equal(it.sockets.length, opened, "and stays");
});

test("a better way that is shut by then is tried once", () => {
  const it = sentToTheStream();
  it.pass(12_000);
  it.last().onclose({ reason: "" });
  it.pass(5_000);
  it.hear(hello);
  assert.deepEqual([it.phase(), it.statuses.at(-1).way], ["open", "stream"]);
  const opened = it.sockets.length;
  it.pass(40_000);
  assert.equal(it.sockets.length, opened);
});

test("the better way is not taken by what ended meanwhile", () => {
  const it = sentToTheStream();
  it.connection.close("over");
  const opened = it.sockets.length;
  it.pass(60_000);
  assert.equal(it.sockets.length, opened);
});

test("each way has its own patience with silence", () => {
  const it = connect(() => "", ["stream"]);
  it.hear(hello);
  it.pass(40_000);
  assert.equal(it.sockets.length, 1);
  it.pass(20_000);
  assert.ok(it.sockets.length >= 2);
});

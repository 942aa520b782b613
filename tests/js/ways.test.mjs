import assert from "node:assert/strict";
import { test } from "node:test";

import { lineOf, waysTo } from "../../static/live/ways.js";

class Source extends EventTarget {
  closed = false;
  close() { this.closed = true; }
}

test("both ways say what the viewer has", () => {
  let place = null;
  const ways = waysTo("https://x.example/spectator/", "live/ep-1", () => place);
  assert.deepEqual(ways.map((way) => way.address()), ["wss://x.example/spectator/live/ep-1", "https://x.example/spectator/live/ep-1/events"]);
  place = { epoch: "e1", seq: 7 };
  assert.deepEqual(ways.map((way) => new URL(way.address()).search), ["?epoch=e1&seq=7", "?epoch=e1&seq=7"]);
});

test("server-sent events look like a socket: messages, signs of life, one end, no coming back by itself", () => {
  const source = new Source();
  const line = lineOf(source);
  const heard = [];
  line.onmessage = ({ data }) => heard.push(data);
  line.onclose = () => heard.push("closed");
  source.onmessage({ data: "{}" });
  source.dispatchEvent(new Event("beat"));
  assert.deepEqual(heard, ["{}", '{"frame":"beat"}']);
  line.send("nothing is sent");
  source.onerror();
  assert.equal(source.closed, true);
  assert.equal(heard.at(-1), "closed");
});

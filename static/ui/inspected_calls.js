// @ts-check
// The model calls behind a decision, fetched on demand: prompt and reply as sent, tools, tokens.

import { readLines } from "../live/api.js";
import { h, replace, setText } from "./dom.js";
import { tokensPart } from "./inspected_tokens.js";
import { clip, duration, plain, plural, said, words } from "./text.js";

const MESSAGE = 600;
const TOOLS = 2_000;
/** @param {string} root @param {string} episodeId */
export function mountCalls(root, episodeId) {
  const place = h("div", { class: "inspect__calls" });
  const status = h("p", { class: "dialog__say", role: "status" });
  const element = h("details", { class: "inspect__part" }, h("summary", {}, "Prompt, reply and tokens as sent"), status, place);
  /** @type {Map<number, any[]>} */ const known = new Map();
  let wanted = 0;
  /** @type {{turn: number, actor: string, before?: number}} */ let of = { turn: 0, actor: "" };
  element.addEventListener("toggle", () => element.open && void fetchCalls());

  async function fetchCalls() {
    const seq = wanted;
    replace(place);
    setText(status, known.has(seq) ? "" : "Reading…");
    if (!known.has(seq)) {
      const { actor, turn, before } = of;
      const read = (/** @type {number} */ at) => readLines(root, `api/episodes/${encodeURIComponent(episodeId)}/calls?turn=${at}`);
      let answer = await read(turn);
      if (answer.ok && !answer.body.length && before !== undefined) answer = await read(before);
      if (answer.ok) known.set(seq, answer.body.filter((/** @type {any} */ one) => one.actor === undefined || one.actor === actor));
      if (seq !== wanted) return;
      if (!answer.ok) return setText(status, `${answer.message} Only operators may read prompts; enter the token on the operator page.`);
    }
    const calls = known.get(seq) ?? [];
    setText(status, calls.length ? "" : "The record has no prompt for this decision.");
    replace(place, ...calls.flatMap((one, index) => callParts(one, calls.length > 1 ? index + 1 : 0)));
  }

  return {
    element,
    /** @param {{seq: number, turn: number, actor: string, before?: number}} made the decision; its turn is the same in record and view, its number may not be; `before` is the turn that is read if this one has no calls @param {number} questions to a model behind it */
    show({ seq, turn, actor, before }, questions) {
      element.hidden = questions === 0;
      if (seq === wanted) return;
      wanted = seq;
      of = { turn, actor, before };
      if (element.open) void fetchCalls();
    },
  };
}

/** @param {any} one a call as the server sends it @param {number} number which of several; 0 for the only one */
function callParts(one, number) {
  const sampling = Object.entries(one.sampling ?? {}).map(([name, value]) => `${words(name)} ${JSON.stringify(value)}`).join(", ");
  const first = one.measured?.first_token_s;
  const told = [sampling, typeof first === "number" ? `first token after ${duration(first)}` : "", one.measured?.attempts > 1 ? plural(one.measured.attempts, "attempt") : ""].filter(Boolean).join("; ");
  return [
    number ? h("h4", {}, `Request ${number}`) : null, told ? h("p", { class: "quiet" }, h("bdi", {}, clip(plain(told), 400))) : null,
    ...one.messages.map(messagePart),
    one.tools?.length ? h("details", { class: "inspect__message" }, h("summary", {}, `${plural(one.tools.length, "tool")} offered`), filled("pre", TOOLS, JSON.stringify(one.tools, null, 1))) : null,
    replyPart(one.reply), tokensPart(one),
  ].filter(Boolean);
}

/** @param {any} message */
function messagePart(message) {
  const content = typeof message.content === "string" ? message.content : JSON.stringify(message.content ?? "", null, 1);
  const called = message.tool_calls ? `\n${JSON.stringify(message.tool_calls, null, 1)}` : "";
  return h("section", { class: "inspect__message" }, h("h5", {}, words(message.role ?? "")), filled("pre", MESSAGE, `${content}${called}`));
}

/** @param {string} tag @param {number} limit @param {string} text */
function filled(tag, limit, text) {
  const box = said(tag, "inspect__raw", limit);
  box.show(text);
  return box.element;
}

/** The answer as it came: its text, thoughts, and calls of tools. @param {any} reply */
function replyPart(reply) {
  if (!reply) return null;
  const calls = reply.tool_calls?.length ? JSON.stringify(reply.tool_calls, null, 1) : "";
  const parts = [reply.thought ? `(thought) ${reply.thought}` : "", reply.content ?? "", reply.refusal ?? "", calls].filter(Boolean).join("\n\n");
  return h("section", { class: "inspect__message" }, h("h5", {}, `The reply as received${reply.finish_reason ? `, ended by ${words(reply.finish_reason)}` : ""}`), filled("pre", MESSAGE, parts || "(empty)"));
}

// @ts-check
// The calls to a model behind a decision, asked for when somebody wants them: prompt as sent, tools, tokens by probability.

import { readLines } from "../live/api.js";
import { h, replace, setText } from "./dom.js";
import { clip, duration, plain, plural, said, words } from "./text.js";

const MESSAGE = 600;
const TOOLS = 2_000;
/** Tokens that are drawn: more are told, not drawn. */
const MOST_TOKENS = 4_000;
/** Lower ends of the classes that tokens are coloured by, the surest first. */
const SURE = [0.9, 0.5, 0.2, 0.05];

/** Which class of probability a token is in, from 0, the surest. @param {number | null} logprob in nats */
export function sureness(logprob) {
  if (logprob === null) return SURE.length + 1;
  const found = SURE.findIndex((least) => Math.exp(logprob) >= least);
  return found < 0 ? SURE.length : found;
}

/** @param {string} root @param {string} episodeId */
export function mountCalls(root, episodeId) {
  const place = h("div", { class: "inspect__calls" });
  const status = h("p", { class: "dialog__say", role: "status" });
  const element = h("details", { class: "inspect__part" }, h("summary", {}, "The prompt as it was sent"), status, place);
  /** @type {Map<number, any[]>} */ const known = new Map();
  let wanted = 0;
  element.addEventListener("toggle", () => element.open && void fetchCalls());

  async function fetchCalls() {
    const seq = wanted;
    replace(place);
    setText(status, known.has(seq) ? "" : "Reading…");
    if (!known.has(seq)) {
      const answer = await readLines(root, `api/episodes/${encodeURIComponent(episodeId)}/calls?after_seq=${seq - 1}&until_seq=${seq}`);
      if (answer.ok) known.set(seq, answer.body);
      if (seq !== wanted) return;
      if (!answer.ok) return setText(status, `${answer.message} What a seat was shown is for the operator alone; the token is asked for on the operator’s page.`);
    }
    const calls = known.get(seq) ?? [];
    setText(status, calls.length ? "" : "The record holds no prompt of this decision.");
    replace(place, ...calls.flatMap((one, index) => callParts(one, calls.length > 1 ? index + 1 : 0)));
  }

  return {
    element,
    /** @param {number} seq of the decision @param {number} questions to a model behind it */
    show(seq, questions) {
      element.hidden = questions === 0;
      if (seq === wanted) return;
      wanted = seq;
      if (element.open) void fetchCalls();
    },
  };
}

/** @param {any} one a call as the server tells it @param {number} number which of several; 0 for the only one */
function callParts(one, number) {
  const sampling = Object.entries(one.sampling ?? {}).map(([name, value]) => `${words(name)} ${JSON.stringify(value)}`).join(", ");
  const first = one.measured?.first_token_s;
  const told = [sampling, typeof first === "number" ? `first token after ${duration(first)}` : "", one.measured?.attempts > 1 ? plural(one.measured.attempts, "attempt") : ""].filter(Boolean).join("; ");
  return [
    number ? h("h4", {}, `Question ${number}`) : null, told ? h("p", { class: "quiet" }, h("bdi", {}, clip(plain(told), 400))) : null,
    ...one.messages.map(messagePart),
    one.tools?.length ? h("details", { class: "inspect__message" }, h("summary", {}, `${plural(one.tools.length, "tool")} offered`), filled("pre", TOOLS, JSON.stringify(one.tools, null, 1))) : null,
    tokensPart(one),
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

/** How sure the model was of each token that it wrote, where the record has that: a cell a token. @param {any} one */
function tokensPart(one) {
  /** @type {(number | null)[]} */ const logprobs = one.logprobs ?? [];
  if (!logprobs.length) return h("p", { class: "quiet" }, "The endpoint gave no probabilities of tokens.");
  const known = logprobs.filter((value) => value !== null);
  const mean = Math.exp(known.reduce((total, value) => total + value, 0) / Math.max(1, known.length));
  return h("section", { class: "inspect__message" }, h("h5", {}, `${plural(logprobs.length, "token")} by probability, ${(100 * mean).toFixed(0)} % on the geometric mean`),
    h("p", { class: "tokens", role: "img", "aria-label": `Of ${logprobs.length} tokens, ${known.filter((value) => sureness(value) >= 3).length} were less likely than one in five` },
      ...logprobs.slice(0, MOST_TOKENS).map((value, at) => h("i", { class: `tokens__one tokens__one--${sureness(value)}`, title: `token ${at + 1}${one.token_ids?.[at] === undefined ? "" : `, number ${one.token_ids[at]}`}: ${value === null ? "unknown" : `${(100 * Math.exp(value)).toFixed(1)} %`}` }))),
    h("p", { class: "quiet" }, "From sure to surprising: ", ...[0, 1, 2, 3, 4].map((kind) => h("i", { class: `tokens__one tokens__one--${kind}` })), " 90 %, 50 %, 20 %, 5 %, less. The record keeps the tokens’ numbers, not their text."));
}

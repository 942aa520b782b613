// @ts-check
// An imported episode as a conversation: its events as messages, in order; pure.

import { parseJson } from "./json.js";

/** @typedef {import("./protocol.js").LiveEvent} LiveEvent */
/** @typedef {{id: string, name: string, given: [string, unknown][], text: string}} Call `given` are its arguments by name; `text` is what could not be read as such */
/**
 * @typedef {object} Message
 * @property {"system" | "user" | "model" | "tool" | "other" | "note"} kind
 * @property {number} seq @property {number} turn @property {string} role as its file calls it
 * @property {string} name of the speaker, the tool or the model; may be empty
 * @property {string} text @property {number | null} length characters of the whole text, if the record cut it
 * @property {string} thought @property {Call[]} calls @property {string[]} images
 * @property {number | null} reward
 * @property {{tokens_in: number | null, tokens_out: number | null, latency_s: number, finish: string, asked: boolean}} cost `asked` is whether a request to a model is recorded
 */

const KINDS = /** @type {Record<string, Message["kind"]>} */ ({ system: "system", user: "user", assistant: "model", tool: "tool" });
/** The only kinds of address that are shown as an image. */
const IMAGE = /^data:image\/(?:png|jpeg|gif|webp);base64,[A-Za-z0-9+/]+={0,2}$/;
/** What a file's image is in the text of its message. */
const PLACEHOLDER = /^\[(?:image|image_url|input_image|part)\](?:\n|$)/m;

const known = (/** @type {unknown} */ value) => (typeof value === "number" ? value : null);

/** @param {LiveEvent} event @param {Partial<Message>} members @returns {Message} */
const message = (event, members) => ({
  kind: "other", seq: event.seq, turn: event.turn, role: "", name: "", text: "", length: null, thought: "", calls: [], images: [], reward: null,
  cost: { tokens_in: null, tokens_out: null, latency_s: 0, finish: "", asked: false }, ...members,
});

/** @param {unknown} id @param {unknown} name @param {unknown} given as text or as values @returns {Call} */
function callOf(id, name, given) {
  let values = given;
  if (typeof given === "string") {
    try { values = parseJson(given); } catch { /* it is shown as it is */ }
  }
  const named = typeof values === "object" && values !== null && !Array.isArray(values);
  return { id: String(id ?? ""), name: String(name ?? ""), given: named ? Object.entries(/** @type {object} */ (values)) : [], text: named ? "" : String(given ?? "") };
}

/** Builds the messages from events, and keeps what the record says of the whole episode. */
export class Conversation {
  /** @type {Message[]} */ messages = [];
  /** What the first event says. @type {any} */ started = {};
  /** What the last event says; null before it. @type {any} */ ended = null;
  /** Times of the first and last event, RFC 3339. */ times = ["", ""];
  /** Parts of the reward. @type {Record<string, number>} */ rubric = {};
  /** Tokens that were read and written, as far as they are known. @type {{in: number | null, out: number | null}} */ tokens = { in: null, out: null };
  /** Names of the called tools, by the calls' ids. @type {Map<string, string>} */ #tools = new Map();
  /** @type {Message | null} */ #answer = null;
  /** Calls of the newest answer that have no result yet. @type {Call[]} */ #open = [];

  get answers() { return this.messages.filter((one) => one.cost.asked || one.calls.length || one.kind === "model").length; }

  /** Add an event; returns the messages that are new or changed. @param {LiveEvent} event @returns {Message[]} */
  take(event) {
    const { data } = event;
    this.times = [this.times[0] || event.at, event.at];
    if (event.type === "episode.started") this.started = data;
    if (event.type === "episode.ended") this.ended = data;
    if (event.type === "step.taken") {
      if (Object.keys(data.rubric ?? {}).length) this.rubric = data.rubric;
      return this.#reward(data.reward);
    }
    if (event.type === "warned") return this.#add(message(event, { kind: "note", text: data.message }));
    if (event.type === "decision.made") return this.#decided(event);
    if (event.type === "imported.said") return this.#said(event);
    return [];
  }

  /** @param {...Message} added */
  #add(...added) {
    this.messages.push(...added);
    return added;
  }

  /** @param {unknown} reward */
  #reward(reward) {
    const value = known(reward);
    if (this.#answer === null || value === null || this.#answer.reward === value) return [];
    this.#answer.reward = value;
    return [this.#answer];
  }

  /** @param {LiveEvent} event */
  #said(event) {
    const { data } = event;
    const hidden = data.private ? [message(event, { kind: "system", role: "system" })] : [];
    const listed = data.messages ?? (data.text ? [{ role: "environment", content: data.text }] : []);
    const said = listed.map((/** @type {any} */ one) => {
      const images = (one.images ?? []).filter((/** @type {string} */ image) => IMAGE.test(image));
      const text = images.reduce((/** @type {string} */ rest) => rest.replace(PLACEHOLDER, ""), String(one.content)).trimEnd();
      return message(event, { kind: KINDS[one.role] ?? "other", role: one.role, text, length: one.length ?? null, images, name: one.role === "tool" ? this.#answers(one) : one.name ?? "" });
    });
    if (data.omitted) said.push(message(event, { kind: "note", text: `${data.omitted} more messages are in its file, for which this record has no room.` }));
    return [...this.#add(...hidden, ...said), ...this.#reward(data.reward)];
  }

  /** Name of the tool whose result a message is; the first open call where nothing says. @param {any} one */
  #answers(one) {
    const place = this.#open.findIndex((call) => (one.tool_call_id ? call.id === one.tool_call_id : !one.name || call.name === one.name));
    const [call] = this.#open.splice(Math.max(0, place), place < 0 ? 0 : 1);
    return one.name || this.#tools.get(one.tool_call_id ?? "") || (call?.name ?? "");
  }

  /** @param {LiveEvent} event */
  #decided(event) {
    const { data } = event;
    const asked = data.exchanges?.at(-1);
    const reply = asked?.reply;
    const { text = "", calls: several, tool, arguments: given, ...rest } = data.action ?? {};
    const acted = Array.isArray(several) ? several.map((one) => callOf("", one.tool, one.arguments)) : tool === undefined ? [] : [callOf("", tool, given)];
    if (!acted.length && Object.keys(rest).length) acted.push(callOf("", "action", rest));
    const calls = reply ? (reply.tool_calls ?? []).map((/** @type {any} */ one) => callOf(one.id, one.name, one.arguments)) : acted;
    for (const call of calls) if (call.id) this.#tools.set(call.id, call.name);
    this.#open = [...calls];
    const [tokensIn, tokensOut] = [known(data.tokens_in), known(data.tokens_out)];
    if (tokensIn !== null) this.tokens.in = (this.tokens.in ?? 0) + tokensIn;
    if (tokensOut !== null) this.tokens.out = (this.tokens.out ?? 0) + tokensOut;
    this.#answer = message(event, {
      kind: "model", role: "assistant", name: data.model ?? "", thought: reply?.thought || (reply ? "" : data.reasoning) || "", calls,
      text: reply ? reply.content || reply.refusal || "" : String(data.raw_text ?? text), length: asked && !reply ? Infinity : null,
      cost: { tokens_in: tokensIn, tokens_out: tokensOut, latency_s: data.latency_s ?? 0, finish: reply?.finish_reason ?? "", asked: asked !== undefined },
    });
    return this.#add(this.#answer);
  }
}

/**
 * How an episode ended, in words: a reason where there is no verdict.
 * @param {any} ended what its last event says; null where there is none
 * @returns {{tone: "good" | "none" | "bad", title: string, reward: number | null, why: string}}
 */
export function verdictOf(ended) {
  const reward = known(ended?.score) ?? known(ended?.total_reward);
  const why = String(ended?.detail ?? "");
  if (ended === null) return { tone: "none", title: "Unfinished", reward: null, why: "Its record has no end." };
  if (ended.reason === "finished") return { tone: reward === null ? "none" : "good", title: reward === null ? "No reward" : "Reward", reward, why: reward === null ? "Its file states none." : "" };
  if (ended.reason === "step_cap") return { tone: "none", title: reward === null ? "Cut short" : "Reward, cut short", reward, why };
  if (ended.reason === "interrupted") return { tone: "none", title: "Unfinished", reward: null, why };
  return { tone: "bad", title: why.startsWith("declared invalid") ? "Invalid, no verdict" : "Failed, no verdict", reward: null, why };
}

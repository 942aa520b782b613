// @ts-check
// One message of a conversation: who speaks, its text (folded where it is long), thoughts, calls, images.

import { readLines } from "../live/api.js";
import { h, replace, setText } from "./dom.js";
import { mountCalls } from "./inspected_calls.js";
import { duration, plain, plural, rewardText, words } from "./text.js";

/** @typedef {import("../live/conversation.js").Message} Message */
/**
 * A text that can be searched, all of it or only its beginning shown.
 * @typedef {{text: string, node: Text, element: HTMLElement, reveal: () => void}} Block
 */

/** Characters and lines of a text up to which it is shown whole. */
const [LONG, LINES] = [1_600, 24];
/** What is shown of a longer one. */
const [HEAD, HEAD_LINES] = [1_000, 14];
const ROLES = { system: "System", user: "User", model: "Model", tool: "Result", other: "", note: "Note" };

/** Where a text is folded; its length where it is not. @param {string} text */
function foldAt(text) {
  const ends = [...text.matchAll(/\n/g)].map((found) => found.index);
  if (text.length <= LONG && ends.length < LINES) return text.length;
  const line = ends[HEAD_LINES - 1] ?? text.length;
  const cut = Math.min(HEAD, line);
  return /[\ud800-\udbff]/.test(text[cut - 1]) ? cut - 1 : cut;
}

/** @param {string} root @param {string} episodeId */
export function makeDrawer(root, episodeId) {
  /** @type {Map<Message, Block[]>} */ const blocks = new Map();

  /** @param {Message} of @param {string} tag @param {string} className @param {string} given @returns {HTMLElement} */
  function block(of, tag, className, given) {
    const text = plain(given);
    const cut = foldAt(text);
    const node = document.createTextNode(cut < text.length ? `${text.slice(0, cut).trimEnd()}…` : text);
    const content = h("bdi", { dir: "auto" }, node);
    const more = cut < text.length ? h("button", { class: "more msg__more", type: "button", "aria-expanded": "false" }, `Show all ${text.length.toLocaleString("en")} characters`) : null;
    const element = h(tag, { class: `msg__text ${className}` }, content, more);
    const show = (/** @type {boolean} */ whole) => {
      node.data = whole ? text : `${text.slice(0, cut).trimEnd()}…`;
      more?.setAttribute("aria-expanded", String(whole));
      if (more) setText(more, whole ? "Show less" : `Show all ${text.length.toLocaleString("en")} characters`);
    };
    more?.addEventListener("click", () => {
      const whole = more.getAttribute("aria-expanded") === "false";
      show(whole);
      if (!whole) element.scrollIntoView({ block: "nearest" });
    });
    blocks.get(of)?.push({ text, node, element, reveal: () => { show(true); element.closest("details")?.setAttribute("open", ""); } });
    return element;
  }

  /** @param {Message} of @param {import("../live/conversation.js").Call} call */
  function callPart(of, call) {
    const rows = call.given.flatMap(([name, value]) => [
      h("dt", {}, block(of, "span", "msg__arg", name)),
      h("dd", {}, block(of, "div", "msg__mono", typeof value === "string" ? value : JSON.stringify(value, null, 1) ?? "")),
    ]);
    return h("section", { class: "msg__call" }, h("h4", {}, h("span", { class: "quiet" }, "calls "), h("code", {}, block(of, "span", "msg__arg", call.name))),
      rows.length ? h("dl", {}, ...rows) : call.text && call.text !== "{}" ? block(of, "div", "msg__mono", call.text) : null);
  }

  /** A text that only the model calls have whole, fetched on demand. @param {Message} of @param {string} label @param {(calls: any[]) => string | undefined} find @param {number} turn */
  function fetched(of, label, find, turn) {
    const place = h("div", { class: "msg__whole" });
    const status = h("span", { class: "quiet", role: "status" });
    const button = h("button", { class: "more", type: "button" }, label);
    const fetchText = async () => {
      setText(status, "Reading…");
      const answer = await readLines(root, `api/episodes/${encodeURIComponent(episodeId)}/calls?turn=${turn}`);
      const text = answer.ok ? find(answer.body) : undefined;
      setText(status, !answer.ok ? `${answer.message} Only operators may read prompts.` : text === undefined ? "The record does not have it." : "");
      if (text === undefined) return;
      button.hidden = true;
      replace(place, block(of, "div", of.kind === "system" ? "" : "msg__mono", text));
    };
    button.addEventListener("click", fetchText);
    return { element: h("div", {}, h("p", { class: "msg__fetch" }, button, " ", status), place), fetchText };
  }

  /** @param {Message} of */
  function wholePart(of) {
    if (of.length === null) return null;
    if (of.kind === "model") return fetched(of, "Show the whole answer", (calls) => wholeReply(calls[0]?.reply), of.turn).element;
    const head = of.text.slice(0, 400).replace(/…$/, "");
    const find = (/** @type {any[]} */ calls) => calls[0]?.messages.findLast((/** @type {any} */ one) => one.role === of.role && plain(one.content).startsWith(plain(head)))?.content;
    return fetched(of, `Show all ${of.length.toLocaleString("en")} characters of the file`, find, of.turn + 1).element;
  }

  /** What an answer cost, as far as it is known. @param {Message["cost"]} cost */
  const costWords = (cost) => [
    tokenWords(cost.tokens_in, cost.tokens_out), cost.latency_s > 0 ? duration(cost.latency_s) : "", cost.finish && !["stop", "tool_calls", "end_turn", "tool_use"].includes(cost.finish) ? `ended by ${words(cost.finish)}` : "",
  ].filter(Boolean).join(" · ");

  /** The prompt and tokens of an answer, fetched when asked for. @param {Message} of */
  function promptPart(of) {
    const calls = mountCalls(root, episodeId);
    calls.show({ seq: of.seq, turn: of.turn, actor: "agent" }, 1);
    return calls.element;
  }

  /** @param {Message} of @param {number} number @param {boolean} owner whether prompts may be read without more */
  function draw(of, number, owner) {
    blocks.set(of, []);
    const name = plain(of.name);
    const title = h("h3", { id: `m${number}-title` }, h("span", { class: "msg__role" }, ROLES[of.kind] || words(of.role) || "Message"), name ? [" ", h("bdi", { class: "msg__name" }, of.kind === "tool" ? `of ${name}` : name)] : null);
    const cost = costWords(of.cost);
    const reward = rewardText(of.reward);
    const system = of.kind === "system" && !of.text ? fetched(of, "Show the system prompt", (calls) => systemOf(calls[0]), 1) : null;
    if (system && owner) void system.fetchText();
    const nothing = of.kind === "model" && !of.text && !of.calls.length && !of.thought;
    const article = h("article", { class: "msg__body", tabindex: "-1", "aria-labelledby": `m${number}-title` },
      h("header", { class: "msg__head" }, title,
        cost ? h("span", { class: "msg__cost" }, cost) : null,
        reward ? h("span", { class: "badge msg__reward", data: { sign: Math.sign(of.reward ?? 0) } }, `${reward} reward`) : null,
        h("a", { class: "msg__number", href: `#m${number}`, "aria-label": `Link to message ${number}` }, String(number))),
      of.thought ? h("details", { class: "msg__thought" }, h("summary", {}, `Thoughts, ${plural(plain(of.thought).length, "character")}`), block(of, "div", "", of.thought)) : null,
      of.text ? block(of, "div", of.kind === "tool" ? "msg__mono" : "", of.text) : null,
      nothing ? h("p", { class: "quiet" }, "An empty answer.") : null,
      of.kind === "tool" && !of.text && !of.images.length ? h("p", { class: "quiet" }, "An empty result.") : null,
      ...of.images.map((image, place) => h("img", { class: "msg__image", src: image, alt: `Image ${place + 1} of message ${number}`, loading: "lazy", decoding: "async" })),
      ...of.calls.map((call) => callPart(of, call)),
      system?.element, wholePart(of), of.cost.asked && owner ? promptPart(of) : null);
    return h("li", { class: "msg", id: `m${number}`, data: { kind: of.kind, seq: of.seq } }, article);
  }

  return { draw, /** @param {Message} of */ blocksOf: (of) => blocks.get(of) ?? [] };
}

/** Tokens that were read and written, as far as they are known. @param {number | null} read @param {number | null} written */
export const tokenWords = (read, written) => [read === null ? "" : `${plural(read, "token")} in`, written === null ? "" : read === null ? `${plural(written, "token")} out` : `${written.toLocaleString("en")} out`].filter(Boolean).join(", ");

/** @param {any} call */
const systemOf = (call) => call?.messages.filter((/** @type {any} */ one) => one.role === "system").map((/** @type {any} */ one) => one.content).join("\n\n") || undefined;

/** @param {any} reply */
const wholeReply = (reply) => reply && [reply.thought, reply.content, ...(reply.tool_calls ?? []).map((/** @type {any} */ one) => `${one.name} ${one.arguments}`)].filter(Boolean).join("\n\n");

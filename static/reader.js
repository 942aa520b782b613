// @ts-check
// The page of an imported episode: its conversation to read, its verdict, its siblings.

import { recallToken } from "./live/api.js";
import { Conversation } from "./live/conversation.js";
import { readRecord } from "./live/record.js";
import { byId, h, pageRoot, replace, setAttribute, setText } from "./ui/dom.js";
import { mountFind } from "./ui/find.js";
import { makeDrawer } from "./ui/message.js";
import { mountShare, tellFrame } from "./ui/share.js";
import { plural } from "./ui/text.js";
import { typed } from "./ui/typed.js";
import { drawRun, drawSiblings, drawVerdict } from "./ui/verdict.js";

/** @typedef {import("./live/conversation.js").Message} Message */

const root = pageRoot();
const main = byId("main");
const list = byId("messages");
const { episode: episodeId = "" } = main.dataset;
const owner = main.dataset.owner === "true" || recallToken() !== "";
const conversation = new Conversation();
const drawer = makeDrawer(root, episodeId);
/** @type {Map<Message, HTMLElement>} */ const drawn = new Map();
/** @type {{before: string | null, after: string | null}} */ let siblings = { before: null, after: null };
/** @type {HTMLElement | null} */ let current = null;

const find = mountFind(byId("find"), () => conversation.messages.flatMap(drawer.blocksOf));
tellFrame(episodeId, Number(new URLSearchParams(location.search).get("seq")) || null);
mountShare(byId("share"), episodeId, () => (current === null ? null : Number(current.dataset.seq)));

/** @param {Message} message */
function draw(message) {
  const known = drawn.get(message);
  const element = drawer.draw(message, known ? [...drawn.keys()].indexOf(message) + 1 : drawn.size + 1, owner);
  drawn.set(message, element);
  if (known) known.replaceWith(element);
  else list.append(element);
}

/** Go to a message, and let the keyboard go on from there. @param {HTMLElement | null | undefined} element */
function goTo(element) {
  if (!element) return;
  current = element;
  element.scrollIntoView({ block: "start" });
  /** @type {HTMLElement} */ (element.firstElementChild).focus({ preventScroll: true });
}

/** The message at the top of what is in sight. */
function inSight() {
  if (current && current.contains(document.activeElement)) return current;
  const top = byId("tools").getBoundingClientRect().bottom;
  return [...list.children].find((one) => one.getBoundingClientRect().bottom > top + 8) ?? null;
}

/** @param {-1 | 1} by */
const step = (by) => goTo(by > 0 ? (current ? inSight()?.nextElementSibling : inSight()) : inSight()?.previousElementSibling);

/** The message of the address: of an event's number, or of a message's. */
function addressed() {
  const seq = Number(new URLSearchParams(location.search).get("seq"));
  if (/^#m\d+$/.test(location.hash)) return document.getElementById(location.hash.slice(1));
  return seq ? [...list.children].findLast((one) => Number(one.dataset.seq) <= seq) : null;
}

/** @param {HTMLElement} button @param {() => Iterable<HTMLElement>} places @param {(place: HTMLElement, open: boolean) => void} open */
function mountToggle(button, places, open) {
  button.addEventListener("click", () => {
    const pressed = button.getAttribute("aria-pressed") !== "true";
    setAttribute(button, "aria-pressed", String(pressed));
    for (const place of places()) open(place, pressed);
  });
}

mountToggle(byId("thoughts"), () => list.querySelectorAll(".msg__thought"), (place, open) => { /** @type {HTMLDetailsElement} */ (place).open = open; });
mountToggle(byId("unfold"), () => list.querySelectorAll(".msg__more"), (place, open) => { if (place.getAttribute("aria-expanded") !== String(open)) place.click(); });

document.addEventListener("keydown", (event) => {
  const key = typed(event);
  const target = event.target instanceof Element ? event.target : document.body;
  if (!key || event.defaultPrevented || document.querySelector("dialog[open]") || target.closest("input, select, textarea")) return;
  const go = (/** @type {string | null} */ address) => { if (address) location.assign(address); };
  const action = { "/": find.focus, j: () => step(1), k: () => step(-1), "[": () => go(siblings.before), "]": () => go(siblings.after), t: () => document.getElementById("theme")?.click(), c: () => byId("share").click() }[key];
  if (!action) return;
  event.preventDefault();
  action();
});
addEventListener("hashchange", () => goTo(addressed()));

try {
  await readRecord(root, episodeId, 0, (events) => {
    const changed = new Set(events.flatMap((event) => conversation.take(event)));
    changed.forEach(draw);
  });
  drawVerdict(byId("verdict"), conversation, episodeId);
  drawRun(byId("run"), root, conversation.started);
  const count = conversation.messages.filter((one) => one.kind !== "note").length;
  setText(byId("count"), plural(count, "message"));
  byId("thoughts").hidden = !list.querySelector(".msg__thought");
  byId("unfold").hidden = !list.querySelector(".msg__more");
  byId("nothing").hidden = count > 0;
  setText(byId("state"), "Imported");
  main.classList.remove("waiting");
  goTo(addressed());
  find.again();
  siblings = await drawSiblings(byId("siblings"), root, episodeId, conversation.started);
} catch (error) {
  main.classList.remove("waiting");
  setText(byId("state"), "Unavailable");
  replace(byId("say"), h("b", {}, "The record of this episode could not be read."), ` ${error instanceof Error ? error.message : error}. Reload the page to try again.`);
  byId("say").hidden = false;
}

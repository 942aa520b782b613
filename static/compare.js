// @ts-check
// The page that shows two episodes side by side, in step.

import { get } from "./live/api.js";
import { readRecord } from "./live/record.js";
import { differences, parting, placeAt, placesOf } from "./live/steps.js";
import { Timeline } from "./live/timeline.js";
import { drawDifference } from "./ui/difference.js";
import { byId, h, pageRoot, replace, setAttribute, setText } from "./ui/dom.js";
import { readQuery } from "./ui/query.js";
import { decidedWords, makeSide } from "./ui/side.js";
import { ago, clip, plain, words } from "./ui/text.js";

const POLL_MS = 3_000;
const STEP_MS = 700;

const root = pageRoot();
const [say, sides, chart, part] = ["say", "sides", "chart", "part"].map(byId);
const [scrub, where, playKey] = ["scrub", "where", "play"].map(byId);
const asked = readQuery(["a", "b"]);

/** @typedef {{id: string, entry: any, events: import("./live/protocol.js").LiveEvent[], timeline: Timeline, places: import("./live/steps.js").Place[], sides: string[], chance: (world: any) => number | null, side: ReturnType<typeof makeSide>}} Half */
/** @type {Half[]} */ let halves = [];
/** @type {number[]} */ let steps = [];
let at = 0;
let touched = false;
let playing = false;
/** @type {number | null} step at which they diverge */ let partedAt = null;

/** @param {"a" | "b"} name @returns {Promise<Half>} */
async function open(name) {
  const id = asked[name];
  const answer = await get(root, `api/episodes/${encodeURIComponent(id)}`);
  if (!answer.ok) throw new Error(answer.status === 404 ? `This server has no episode ${plain(id)}.` : answer.message);
  const seen = await get(root, `api/episodes/${encodeURIComponent(id)}/glance`);
  const { sides = [], chance = null } = seen.ok ? seen.body : {};
  const half = { id, entry: answer.body, events: [], timeline: new Timeline(), places: [], sides: sides.map(plain), chance: await chanceOf(answer.body.environment, chance !== null), side: makeSide(name, root, id) };
  await more(half);
  return half;
}

/** How a world's tile reads a chance from its state. @param {string} world @param {boolean} has whether it has chances @returns {Promise<(world: any) => number | null>} */
async function chanceOf(world, has) {
  const none = () => null;
  return has ? import(new URL(`panels/${encodeURIComponent(world)}/tile.js`, root).href).then((module) => module.default.chance ?? none, () => none) : none;
}

/** Read the events recorded since. @param {Half} half */
async function more(half) {
  const before = half.events.length;
  await readRecord(root, half.id, half.timeline.headSeq, (events) => {
    for (const event of events) if (half.timeline.push(event) === "added") half.events.push(event);
  });
  if (half.events.length > before) half.places = placesOf(half.events);
}

function arrange() {
  const [a, b] = halves;
  steps = [...new Set([...a.places, ...b.places].map((place) => place.step))].sort((x, y) => x - y);
  const parted = parting(a.events, b.events);
  const seq = parted?.a?.seq ?? a.events.length;
  partedAt = parted ? (a.places.find((place) => place.seq >= seq)?.step ?? a.places.at(-1)?.step ?? 0) : null;
  drawParting(parted);
  setAttribute(scrub, "max", Math.max(1, steps.length - 1));
  scrub.style.setProperty("--part", partedAt === null ? "-1" : String(steps.indexOf(partedAt) / Math.max(1, steps.length - 1)));
  if (!touched) at = partedAt === null ? steps.length - 1 : Math.max(0, steps.indexOf(partedAt));
  draw();
}

/** @param {ReturnType<typeof parting>} parted */
function drawParting(parted) {
  if (!parted) return replace(part, h("p", {}, halves[0].events.length === halves[1].events.length ? "They are identical from the first step to the last." : "So far they are identical."));
  const told = (/** @type {any} */ event, /** @type {Half} */ half) => (!event ? ["it ended"] : event.type === "decision.made" ? decidedWords(event.data, half.timeline.headState.episode ?? {}) : [words(event.type.replace(/^\w+\./, ""))]);
  const same = halves[0].entry.seed === halves[1].entry.seed;
  replace(part, h("p", {}, h("b", {}, same ? "First different decision: " : "Their seeds differ, so they diverge at once: "), h("button", { class: "more", type: "button", on: { click: () => go(steps.indexOf(partedAt ?? 0)) } }, "go there")),
    figuresPart(), ...(same ? halves : []).map((half, index) => h("p", { class: `part part--${"ab"[index]}` }, h("i", { class: "side__key", "aria-hidden": "true" }), ...told(index ? parted.b : parted.a, half))));
}

/** Where the world's main figure first differs, often long after the first different decision, or never. */
function figuresPart() {
  const both = differences(halves[0].places, halves[1].places);
  const first = both.find(([, value]) => value !== 0);
  if (!first) return both.length ? h("p", { class: "part" }, `Their ${plain(halves[0].timeline.headState.world?.glance?.unit ?? "figures")} never differ.`) : null;
  const { glance } = halves[0].timeline.stateAt(placeAt(halves[0].places, first[0])?.seq ?? 1).world ?? {};
  return h("p", { class: "part" }, `Their ${plain(glance?.unit ?? "figures")} first differ at ${clip(plain(glance?.at ?? `step ${first[0]}`), 40)}: `,
    h("button", { class: "more", type: "button", on: { click: () => go(steps.indexOf(first[0])) } }, "go there"));
}

function draw() {
  const step = steps[at] ?? 0;
  for (const half of halves) {
    const place = placeAt(half.places, step);
    const state = half.timeline.stateAt(place?.seq ?? 1);
    half.side.update(state, place?.seq ?? 1, half.sides, half.chance(state.world ?? {}));
  }
  if (Number(scrub.value) !== at) scrub.value = String(at);
  scrub.style.setProperty("--done", String(at / Math.max(1, steps.length - 1)));
  const glance = halves[0].timeline.stateAt(placeAt(halves[0].places, step)?.seq ?? 1).world?.glance;
  const words_ = clip(plain(glance?.at ?? `step ${step}`), 30);
  setText(where, `${words_} · ${at} / ${Math.max(0, steps.length - 1)}`);
  setAttribute(scrub, "aria-valuetext", `${words_}, ${at} of ${steps.length - 1}`);
  setText(playKey, playing ? "Pause" : "Play");
  drawDifference(chart, halves.map((half) => half.places), { step, partedAt, unit: plain(glance?.unit), go: (/** @type {number} */ to) => go(nearest(to)) });
}

/** @param {number} step */
const nearest = (step) => steps.reduce((best, one, index) => (Math.abs(one - step) < Math.abs(steps[best] - step) ? index : best), 0);

/** @param {number} index */
function go(index) {
  touched = true;
  at = Math.max(0, Math.min(steps.length - 1, index));
  draw();
}

/** Offer episodes to compare `id` with. @param {string} id */
async function offer(id) {
  const mine = await get(root, `api/episodes/${encodeURIComponent(id)}`);
  if (!mine.ok) return tell(mine.status === 404 ? `This server has no episode ${plain(id)}.` : mine.message);
  const { environment, seed, captain_label: label, episode_id: own } = mine.body;
  const others = await get(root, `api/episodes?environment=${encodeURIComponent(environment)}&seed=${seed}&limit=50`);
  const found = (others.body?.episodes ?? []).filter((/** @type {any} */ one) => one.episode_id !== own);
  tell(found.length ? `Compare ${plain(label)}, seed ${seed}, with another on the same seed:` : `No other episode has seed ${seed} yet. Start one in the lobby, or open this one and play on from any moment with another captain.`, false);
  replace(sides, h("ul", { class: "offers" }, ...found.map((/** @type {any} */ one) => h("li", {}, h("a", { href: new URL(`compare?a=${encodeURIComponent(own)}&b=${encodeURIComponent(one.episode_id)}`, root).href },
    clip(`${plain(one.captain_label)}${one.opponent ? ` against ${plain(one.opponent_label)}` : ""}: ${plain(one.result ?? "still running")}`, 120)), h("small", {}, ` ${ago(one.started_at, Date.now())}`)))));
}

/** @param {string} text @param {boolean} [bad] */
function tell(text, bad = true) {
  say.hidden = false;
  setAttribute(byId("title"), "class", "lobby__title"); // a page without episodes shows what it is
  setAttribute(say, "class", bad ? "notice notice--bad" : "notice");
  replace(say, text, " ", h("a", { href: root }, "Back to the lobby"));
}

async function start() {
  if (!asked.a && !asked.b) return tell("Pick two past episodes in the lobby’s list: tick two of the same world, then press Compare.", false);
  if (!asked.a || !asked.b) return offer(asked.a || asked.b);
  halves = [await open("a"), await open("b")];
  const [a, b] = halves.map((half) => half.entry);
  if (a.environment !== b.environment) return tell(`One is ${plain(a.title)}, the other ${plain(b.title)}. Only episodes of the same world can be compared.`);
  say.hidden = true;
  byId("tools").hidden = false;
  replace(sides, ...halves.map((half) => half.side.element));
  arrange();
  void keepUp();
}

/** Follow those that still run. */
async function keepUp() {
  const running = halves.filter((half) => half.timeline.headState.episode?.status !== "ended");
  if (!running.length) return;
  try {
    if (!document.hidden) {
      await Promise.all(running.map(more));
      arrange();
    }
  } catch { /* the server is away: it is asked again */ }
  setTimeout(keepUp, POLL_MS);
}

scrub.addEventListener("input", () => go(Number(scrub.value)));
playKey.addEventListener("click", () => { playing = !playing; if (playing && at >= steps.length - 1) at = 0; draw(); });
byId("back").addEventListener("click", () => go(at - 1));
byId("on").addEventListener("click", () => go(at + 1));
document.addEventListener("keydown", (event) => {
  if (event.ctrlKey || event.metaKey || event.altKey || (event.target instanceof Element && event.target.closest("input, button, a, select"))) return;
  const to = { ArrowLeft: at - 1, ArrowRight: at + 1, Home: 0, End: steps.length - 1 }[event.key];
  if (to !== undefined && halves.length) { event.preventDefault(); go(to); }
});
addEventListener("resize", () => { if (steps.length) draw(); });
setInterval(() => {
  if (!playing) return;
  if (at >= steps.length - 1) playing = false;
  else at += 1;
  touched = true;
  draw();
}, STEP_MS);
start().catch((error) => tell(`${error.message}`));

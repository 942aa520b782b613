// @ts-check
// The page that shows two episodes side by side, in step.

import { get } from "./live/api.js";
import { readRecord } from "./live/record.js";
import { differences, parting, placeAt, placesOf } from "./live/steps.js";
import { Timeline } from "./live/timeline.js";
import { drawDifference } from "./ui/difference.js";
import { byId, h, pageRoot, replace, setAttribute, setText } from "./ui/dom.js";
import { offerEpisodes, partnersOf } from "./ui/offers.js";
import { readQuery } from "./ui/query.js";
import { decidedWords, makeSide } from "./ui/side.js";
import { clip, plain, words } from "./ui/text.js";

const POLL_MS = 3_000;
const STEP_MS = 700;

const root = pageRoot();
const [say, sides, chart, part] = ["say", "sides", "chart", "part"].map(byId);
const [scrub, where, playKey] = ["scrub", "where", "play"].map(byId);
const asked = readQuery(["a", "b"]);

/** @typedef {{id: string, entry: any, events: import("./live/protocol.js").LiveEvent[], timeline: Timeline, places: import("./live/steps.js").Place[], sides: string[], chance: (world: any) => number | null, call?: import("./ui/side.js").Call, side: ReturnType<typeof makeSide>}} Half */
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
  const { sides = [] } = seen.ok ? seen.body : {};
  const { chance = () => null, call } = await tileOf(answer.body.environment);
  const half = { id, entry: answer.body, events: [], timeline: new Timeline(), places: [], sides: sides.map(plain), chance, call, side: makeSide(name, root, id, call) };
  await more(half);
  return half;
}

/** What a world's tile knows; nothing where it has none. @param {string} world @returns {Promise<{chance?: (world: any) => number | null, call?: import("./ui/side.js").Call}>} */
async function tileOf(world) {
  if (!byId("main").dataset.pictured?.split(" ").includes(world)) return {};
  return import(new URL(`panels/${encodeURIComponent(world)}/tile.js`, root).href).then((module) => module.default, () => ({}));
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
  const happened = (/** @type {any} */ event, /** @type {any} */ other, /** @type {Half} */ half) => (!event ? ["it ended"] : event.type === "decision.made" ? decidedWords(event.data, half.timeline.headState.episode ?? {}, half.call, other?.type === event.type && other.data) : [words(event.type.replace(/^\w+\./, ""))]);
  const same = halves[0].entry.seed === halves[1].entry.seed;
  replace(part, h("p", {}, h("b", {}, same ? "First different decision: " : "Their seeds differ, so they diverge at once: "), h("button", { class: "more", type: "button", on: { click: () => go(steps.indexOf(partedAt ?? 0)) } }, "go there")),
    figuresPart(), ...(same ? halves : []).map((half, index) => h("p", { class: `part part--${"ab"[index]}` }, h("i", { class: "side__key", "aria-hidden": "true" }), ...happened(...(index ? [parted.b, parted.a] : [parted.a, parted.b]), half))));
}

/** Where the world's main figure first differs, often long after the first different decision, or never. */
function figuresPart() {
  const both = differences(halves[0].places, halves[1].places);
  const first = both.find(([, value]) => value !== 0);
  if (!first) return both.length ? h("p", { class: "part" }, `Their ${unitOf() || "figures"} never differ.`) : null;
  const { glance } = halves[0].timeline.stateAt(placeAt(halves[0].places, first[0])?.seq ?? 1).world ?? {};
  return h("p", { class: "part" }, `Their ${plain(glance?.unit ?? "figures")} first differ at ${clip(plain(glance?.at ?? `step ${first[0]}`), 40)}: `,
    h("button", { class: "more", type: "button", on: { click: () => go(steps.indexOf(first[0])) } }, "go there"));
}

/** What the world's main figure counts. */
const unitOf = () => halves.map((half) => plain(half.timeline.headState.world?.glance?.unit)).find(Boolean) ?? "";

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
  drawDifference(chart, halves.map((half) => half.places), { step, partedAt, unit: unitOf(), go: (/** @type {number} */ to) => go(nearest(to)) });
}

/** @param {number} step */
const nearest = (step) => steps.reduce((best, one, index) => (Math.abs(one - step) < Math.abs(steps[best] - step) ? index : best), 0);

/** @param {number} index */
function go(index) {
  touched = true;
  at = Math.max(0, Math.min(steps.length - 1, index));
  draw();
}

/** @param {string} text @param {boolean} [bad] */
function tell(text, bad = true) {
  say.hidden = false;
  setAttribute(byId("title"), "class", "lobby__title"); // a page without episodes shows what it is
  setAttribute(say, "class", bad ? "notice notice--bad" : "notice");
  replace(say, text, " ", h("a", { href: root }, "Back to the lobby"));
}

async function start() {
  if (!asked.a || !asked.b) return offerEpisodes(root, asked.a || asked.b, sides, tell);
  halves = [await open("a"), await open("b")];
  const [a, b] = halves.map((half) => half.entry);
  if (a.environment !== b.environment) {
    tell(`One is ${plain(a.title)}, the other ${plain(b.title)}. Only episodes of the same world can be compared.`);
    return replace(sides, ...await Promise.all([a, b].map((one) => partnersOf(root, one))));
  }
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

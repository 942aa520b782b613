// @ts-check
// The page of one run: progress, rewards, failures, stalled episodes, and every episode.

import { get } from "./live/api.js";
import { WallFeed } from "./live/wall.js";
import { byId, h, keyed, pageRoot, replace, setAttribute, setText } from "./ui/dom.js";
import { readQuery, writeQuery } from "./ui/query.js";
import { costWords } from "./ui/run_charts.js";
import { makeGroup } from "./ui/run_group.js";
import { mountCharts } from "./ui/run_plots.js";
import { chosen, idleWords, ORDERS, progressWords, sentence, standingOf } from "./ui/run_words.js";
import { clip, plain, plural, words } from "./ui/text.js";

const TICK_MS = 1_000;
/** A run of unknown size that has been still for so long is idle. */
const IDLE_MS = 60_000;
const MOST_DRAWN = 120;
const FEW = 6;

const root = pageRoot();
const name = decodeURIComponent(location.pathname.split("/").filter(Boolean).at(-1) ?? "");
const wanted = readQuery(["text", "standing", "order", "class", "by", "with"]);
const state = byId("state");
const place = { groups: byId("groups"), empty: byId("empty"), say: byId("say") };
/** @type {any} */ let run = { name, groups: {}, slowest: {}, failed: {} };
/** @type {Map<string, ReturnType<typeof makeGroup>>} */ const made = new Map();
/** What each group shows: a change makes a new object. @type {Map<string, any>} */ const drawn = new Map();
let more = MOST_DRAWN;
let allFailed = false;
let scheduled = false;
/** @type {import("./live/wall.js").Phase} */ let phase = "connecting";

setText(byId("crumb"), clip(name, 40));
setText(byId("title"), clip(name, 64));

const text = h("input", { class: "input", type: "search", placeholder: "Group or episode…", "aria-label": "Search groups and episodes", value: wanted.text });
const standing = h("select", { class: "input", "aria-label": "Which groups" }, ...[["", "every group"], ["open", "still open"], ["complete", "complete"], ["partial", "some episodes failed"], ["void", "all episodes failed"], ["same", "all rewards equal"]]
  .map(([value, label]) => h("option", { value, selected: value === wanted.standing }, label)));
const order = h("select", { class: "input", "aria-label": "Order" }, ...Object.entries(ORDERS).map(([value, label]) => h("option", { value, selected: value === wanted.order }, label)));
replace(byId("tools"), text, standing, order);

const charts = mountCharts(root, name, wanted, () => writeQuery(wanted));

const feed = new WallFeed({
  root,
  what: { live: `live/rollouts/${encodeURIComponent(name)}`, poll: `api/rollouts/${encodeURIComponent(name)}`, frame: "run", field: "run" },
  onTiles(told) { run = { groups: {}, slowest: {}, failed: {}, ...told }; schedule(); },
  onPhase(next) { phase = next; drawState(); },
});

function drawState() {
  const here = phase === "open" || phase === "polling";
  const over = here && run.episodes && run.over >= run.episodes;
  const idle = here && !over && run.begun && !run.playing && Date.now() - Date.parse(run.moved_at) > IDLE_MS;
  setText(state, over ? "Finished" : idle ? "Idle" : { connecting: "Connecting", open: "Live", polling: "Polling", away: "Offline" }[phase]);
  setAttribute(state, "data-tone", over || idle ? "over" : here ? "live" : phase === "away" ? "bad" : "wait");
}

function schedule() {
  if (scheduled || document.hidden) return;
  scheduled = true;
  requestAnimationFrame(draw);
}

function draw() {
  scheduled = false;
  tell(run.problem ? `${clip(plain(run.problem), 300)} Showing the last data read.` : "");
  setText(byId("what"), [run.title, run.environment, run.model, run.group_size > 1 ? `groups of ${run.group_size}` : ""].filter(Boolean).map((one) => clip(plain(one), 80)).join(" · "));
  const bar = byId("bar");
  setAttribute(bar, "max", Math.max(1, run.episodes ?? run.begun ?? 1));
  bar.value = run.over ?? 0;
  charts.update(run);
  drawFailed();
  drawGroups();
  drawState();
  tick();
  byId("main").classList.remove("waiting");
}

/** What counts by itself, between two changes. */
function tick() {
  drawState();
  replace(byId("figures"), ...[...progressWords(run, Date.now()), ...costWords(run)].map(([figure, said]) => h("span", {}, h("b", {}, figure), ` ${said}`)));
  const slowest = Object.entries(run.slowest ?? {}).map(([id, one]) => ({ id, ...one, standing: standingOf(one, run, Date.now()) })).sort((a, b) => Date.parse(a.moved_at) - Date.parse(b.moved_at)).slice(0, FEW);
  setText(byId("usual"), run.usual_turn_s ? `typical turn: ${run.usual_turn_s < 1 ? `${Math.round(run.usual_turn_s * 1000)} ms` : `${run.usual_turn_s.toFixed(1)} s`}` : "");
  keyed(byId("slowest"), slowest.length ? slowest : [{ id: "", standing: "", moved_at: "" }], (one) => one.id, (one) => fillSlow(h("li"), one), fillSlow);
}

/** @param {HTMLElement} element @param {any} one */
function fillSlow(element, one) {
  if (!one.id) {
    if (!element.textContent) element.append("No episode is running.");
    return element;
  }
  const why = `waiting for ${one.waits_for}, turn ${one.turns}${one.attempt > 1 ? `, attempt ${one.attempt}` : ""}${one.group ? `, ${clip(plain(one.group), 40)}` : ""}`;
  if (!element.firstElementChild) element.append(link(one.id), h("span", { class: "run__why" }), h("span", { class: "run__when" }, h("span", { class: "badge" }), " ", h("span")));
  const [, said, when] = element.children;
  setText(said, why);
  setText(when.firstElementChild, one.standing);
  setAttribute(/** @type {Element} */ (when.firstElementChild), "data-tone", one.standing);
  setText(when.lastElementChild, idleWords(one.moved_at, Date.now()));
  return element;
}

/** @param {string} id */
const link = (id) => h("a", { href: new URL(`watch/${encodeURIComponent(id)}`, root).href }, `…${clip(plain(id).slice(-8), 12)}`);

function drawFailed() {
  const classes = Object.entries(run.failures ?? {}).sort((a, b) => b[1] - a[1]);
  keyed(byId("classes"), classes, ([key]) => key, ([key]) => h("button", { class: "chip", type: "button", on: { click: () => choose({ class: wanted.class === key ? "" : key }) } }), () => undefined);
  for (const [key, count] of classes) {
    const chip = [...byId("classes").children].find((one) => one.dataset.key === key);
    setText(chip, `${words(key)} ${count}`);
    setAttribute(chip, "aria-pressed", String(wanted.class === key));
  }
  const every = Object.entries(run.failed ?? {}).filter(([, one]) => !wanted.class || one.class === wanted.class).reverse();
  const failed = allFailed ? every : every.slice(0, FEW);
  const rest = byId("rest");
  rest.hidden = every.length <= FEW;
  setText(rest, allFailed ? "Show fewer" : `Show the newest ${every.length}`);
  keyed(byId("failed"), failed.length ? failed : [["", null]], ([id]) => id, ([id, one]) => (one === null ? h("li", {}, "No attempt has failed.")
    : h("li", {}, link(id), h("span", { class: "run__why" }, h("bdi", {}, `${words(one.class)}: ${clip(plain(one.detail), 200)}`)), h("span", { class: "run__when" }, `attempt ${one.attempt}, ${one.again ? "retried" : "final"}`))));
}

function drawGroups() {
  const found = chosen(run.groups ?? {}, wanted);
  const shown = found.slice(0, more);
  keyed(place.groups, shown, ([key]) => `g:${key}`, ([key]) => {
    const group = makeGroup(key, name, root);
    made.set(key, group);
    drawn.delete(key);
    return group.element;
  });
  const keys = new Set(shown.map(([key]) => key));
  for (const key of made.keys()) if (!keys.has(key)) { made.delete(key); drawn.delete(key); }
  for (const [key, group] of shown) if (drawn.get(key) !== group) {
    made.get(key)?.update(group);
    drawn.set(key, group);
  }
  const all = Object.keys(run.groups ?? {}).length;
  replace(byId("shown"), found.length === all ? plural(all, "group") : `${found.length} of ${plural(all, "group")}`, found.length > shown.length ? h("button", { class: "more", type: "button", on: { click: () => { more += MOST_DRAWN; draw(); } } }, `show ${Math.min(MOST_DRAWN, found.length - shown.length)} more`) : null);
  place.empty.hidden = found.length > 0;
  setText(place.empty, all ? "No group matches the filter." : "Nothing has been played yet.");
}

/** @param {Record<string, string>} change */
function choose(change) {
  Object.assign(wanted, change);
  writeQuery(wanted);
  draw();
}

/** @param {string} message */
function tell(message) {
  place.say.hidden = message === "";
  setText(place.say, message);
}

byId("rest").addEventListener("click", () => { allFailed = !allFailed; drawFailed(); });
for (const control of [text, standing, order]) control.addEventListener("input", () => choose({ text: text.value, standing: standing.value, order: order.value }));
document.addEventListener("visibilitychange", () => { if (!document.hidden) { feed.wake(); schedule(); } });
addEventListener("online", () => feed.wake());
addEventListener("pageshow", (event) => event.persisted && feed.wake());
setInterval(() => { if (!document.hidden) tick(); }, TICK_MS);

const answer = await get(root, `api/rollouts/${encodeURIComponent(name)}`);
if (answer.ok) {
  run = { ...run, ...answer.body.run };
  draw();
  feed.open();
} else {
  byId("main").firstElementChild?.classList.add("early");
  place.say.hidden = false;
  replace(place.say, `${sentence(answer.message)} `, h("a", { href: new URL("rollouts", root).href }, "Back to the runs"));
  setText(state, "Unavailable");
  setAttribute(state, "data-tone", "bad");
}

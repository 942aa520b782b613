// @ts-check
// The page of one group: the siblings of a prompt side by side, in step, and where they diverge.

import { get } from "./live/api.js";
import { readRecord } from "./live/record.js";
import { advantages, alone, company, decisionsOf, firstParting } from "./live/siblings.js";
import { Timeline } from "./live/timeline.js";
import { WallFeed } from "./live/wall.js";
import { byId, h, pageRoot, replace, setAttribute, setText } from "./ui/dom.js";
import { readQuery, writeQuery } from "./ui/query.js";
import { mountFork } from "./ui/fork.js";
import { costWords, settingWords } from "./ui/run_charts.js";
import { rewardWords, sentence } from "./ui/run_words.js";
import { drawWay, makeSibling } from "./ui/sibling.js";
import { mountWords } from "./ui/sibling_words.js";
import { clip, plain, plural } from "./ui/text.js";
import { figure, typed } from "./ui/typed.js";

const [AGAIN_MS, STEP_MS, MOST, KEYS] = [3_000, 800, 24, "123456789abcdefghijklmnopqrstuvwxyz"];
const root = pageRoot();
const group = decodeURIComponent(location.pathname.split("/").filter(Boolean).at(-1) ?? "");
const asked = readQuery(["run", "at"]);
const [say, where, scrub, playKey, link] = ["say", "where", "scrub", "play", "run"].map(byId);
const showWords = mountWords(root);

/** @typedef {{key: string, id: string, events: import("./live/protocol.js").LiveEvent[], timeline: Timeline, decided: import("./live/siblings.js").Decided[], member: any, branch: any, head: number | string | undefined, card: ReturnType<typeof makeSibling>, way: ReturnType<typeof drawWay> | null, counts: import("./live/siblings.js").Company[]}} Sibling */
/** @type {Sibling[]} */ const siblings = [];
/** @type {any} */ let latest = { members: {}, branches: {} };
let [at, touched, longest] = [Math.max(0, Number(asked.at || "0") - 1) || 0, asked.at !== "", 1];
let [playing, reading, more] = [false, false, false];
/** @type {import("./live/wall.js").Phase} */ let phase = "connecting";
const address = `groups/${encodeURIComponent(group)}${asked.run ? `?run=${encodeURIComponent(asked.run)}` : ""}`;
const feed = new WallFeed({
  root,
  what: { live: `live/${address}`, poll: `api/${address}`, frame: "group", field: "group", bare: true },
  onTiles(group) { latest = group.members ? group : { ...latest, problem: group.problem }; void follow(); },
  onPhase(next) { phase = next; drawState(); },
});

/** @param {string} id @param {any} member @param {any} branch */
function add(id, member, branch) {
  const timeline = new Timeline();
  /** @type {Sibling} */ const one = { key: KEYS[siblings.length] ?? String(siblings.length + 1), id, events: [], timeline, decided: [], member, branch, head: undefined, counts: [], way: null, card: /** @type {any} */ (null) };
  one.card = makeSibling(one.key, id, root, (opener) => {
    const mount = () => {
      opener.removeEventListener("click", mount);
      mountFork(opener, root, id, { timeline, seq: () => placeOf(one).seq || 1, wholeRecord: async () => undefined });
      opener.click();
    };
    opener.addEventListener("click", mount);
  }, () => showWords(one, at, longest));
  siblings.push(one);
  byId("siblings").append(one.card.element);
  return one;
}

/** What changes when more of an episode is recorded. @param {string} id */
const headOf = (id) => `${latest.heads?.[id]} ${(latest.members[id] ?? latest.branches?.[id])?.standing}`;

/** Read the new events of the siblings that changed. */
async function readOn() {
  const wanted = [...Object.entries(latest.members).map(([id, member]) => ({ id, member, branch: null })), ...Object.entries(latest.branches ?? {}).map(([id, branch]) => ({ id, member: branch, branch }))].slice(0, MOST);
  const stale = wanted.flatMap(({ id, member, branch }) => {
    const known = siblings.find((one) => one.id === id);
    const one = known ?? add(id, member, branch);
    const moved = !known || (known.timeline.headState.episode?.status !== "ended" && headOf(id) !== known.head);
    one.member = member;
    return moved ? [one] : [];
  });
  const heads = new Map(stale.map((one) => [one.id, headOf(one.id)]));
  await Promise.all(stale.map(async (one) => {
    await readRecord(root, one.id, one.timeline.headSeq, (events) => { for (const event of events) if (one.timeline.push(event) === "added") one.events.push(event); });
    one.decided = decisionsOf(one.events, one.timeline.headState.episode?.agent ?? "");
    one.head = heads.get(one.id);
  }));
  if (stale.length) arrange();
  else draw();
  drawFigures();
}

/** Apply the newest data, unless the page is hidden; again if more arrived meanwhile. */
async function follow() {
  more = true;
  if (reading || document.hidden) return;
  reading = true;
  try {
    while (more) {
      more = false;
      await readOn();
    }
  } catch {
    say.hidden = false;
    setText(say, "A record cannot be read right now; retrying.");
    setTimeout(follow, AGAIN_MS);
  }
  reading = false;
}

function arrange() {
  const ways = siblings.map((one) => one.decided.map((decision) => decision.essence));
  const counts = company(ways);
  longest = Math.max(1, ...ways.map((way) => way.length));
  for (const [index, one] of siblings.entries()) {
    one.counts = counts[index];
    one.way = drawWay(one.key, one.counts, siblings.length, longest, go);
  }
  const parted = firstParting(ways);
  replace(byId("ways"), ...siblings.map((one) => one.way?.element), h("p", { class: "ways__legend" }, ...[["all", "all the same"], ["some", "some the same, one colour per path"], ["one", "alone"]].map(([of, said]) => h("span", {}, h("i", { data: { of }, "aria-hidden": "true" }), said))));
  replace(byId("part"), ...(parted === null ? ["So far all decisions are the same."] : [`At decision ${parted + 1} of ${longest}: `, h("button", { class: "more", type: "button", on: { click: () => go(parted) } }, "go there")]));
  setAttribute(scrub, "max", Math.max(1, longest - 1));
  if (!touched) at = parted ?? longest - 1;
  at = Math.min(at, longest - 1);
  draw();
}

/** Where a sibling stands at the decision that is shown. @param {Sibling} one */
function placeOf(one) {
  const decision = one.decided[at] ?? null;
  return { decision, seq: decision?.until ?? one.timeline.headSeq, past: !decision && one.decided.length > 0 };
}

function draw() {
  const places = siblings.map(placeOf);
  const earned = siblings.map((one) => one.decided[Math.min(at, one.decided.length - 1)]?.earned ?? 0);
  const ahead = earned.some((sum) => sum !== earned[0]) ? advantages(earned) : null;
  for (const [index, one] of siblings.entries()) {
    const { decision, seq, past } = places[index];
    const own = alone(one.counts);
    one.card.update({ state: one.timeline.stateAt(seq), seq, decision, member: one.member, earned: earned[index], advantage: ahead?.[index] ?? null, alone: own !== null && own <= at, past, branch: one.branch });
    one.way?.at(at);
  }
  if (Number(scrub.value) !== at) scrub.value = String(at);
  scrub.style.setProperty("--done", String(at / Math.max(1, longest - 1)));
  setText(where, `Decision ${at + 1} of ${longest}`);
  setAttribute(scrub, "aria-valuetext", `decision ${at + 1} of ${longest}`);
  setText(playKey, playing ? "Pause" : "Play");
}

function drawFigures() {
  drawState();
  say.hidden = !latest.problem;
  setText(say, latest.problem ? `${clip(plain(latest.problem), 300)} Showing the last data read.` : "");
  const figures = [[`${latest.over} of ${latest.size}`, "finished"], [String(latest.usable), "usable"], ...rewardWords(latest, latest.usable), ...(latest.uncounted ? [] : costWords(latest)), ["", `seed ${latest.seed}`]];
  replace(byId("figures"), h("span", {}, h("b", {}, clip(plain(latest.environment), 60))), ...figures.map(([value, said]) => h("span", {}, h("b", {}, value), ` ${said}`)), latest.again ? h("span", {}, `${plural(latest.again, "attempt")} retried`) : null);
  setText(byId("set"), clip(plain(settingWords(latest.configuration)), 200));
  link.hidden = !latest.run;
  if (latest.run) { setText(link, clip(plain(latest.run), 40)); setAttribute(link, "href", new URL(`rollouts/${encodeURIComponent(latest.run)}`, root).href); }
}

function drawState() {
  const over = latest.over >= latest.size && (phase === "open" || phase === "polling");
  setText(byId("state"), over ? "Finished" : { connecting: "Connecting", open: "Live", polling: "Polling", away: "Offline" }[phase]);
  setAttribute(byId("state"), "data-tone", over ? "over" : phase === "open" || phase === "polling" ? "live" : phase === "away" ? "bad" : "wait");
}

/** @param {number} step */
function go(step) {
  touched = true;
  at = Math.max(0, Math.min(longest - 1, step));
  writeQuery({ run: asked.run, at: String(at + 1) });
  draw();
}

setText(byId("crumb"), clip(group, 40));
setText(byId("title"), `Group ${clip(group, 60)}`);
scrub.addEventListener("input", () => go(Number(scrub.value)));
playKey.addEventListener("click", () => { playing = !playing; if (playing && at >= longest - 1) at = 0; draw(); });
byId("back").addEventListener("click", () => go(at - 1));
byId("on").addEventListener("click", () => go(at + 1));
document.addEventListener("keydown", (event) => {
  const pressed = String(figure(event) || typed(event));
  if (!pressed || (event.target instanceof Element && event.target.closest("input, select, dialog"))) return;
  const to = { ArrowLeft: at - 1, ArrowRight: at + 1, Home: 0, End: longest - 1 }[event.key];
  if (to !== undefined && siblings.length) { event.preventDefault(); return go(to); }
  const one = siblings.find(({ key }) => key === pressed);
  if (one && event.shiftKey === false) { one.card.element.focus(); one.card.element.scrollIntoView({ block: "nearest" }); }
  if (event.key === "Enter" && event.target instanceof HTMLElement && event.target.classList.contains("sibling")) siblings.find(({ card }) => card.element === event.target)?.card.open.click();
});
document.addEventListener("visibilitychange", () => { if (!document.hidden) { feed.wake(); void follow(); } });
addEventListener("online", () => feed.wake());
addEventListener("pageshow", (event) => event.persisted && feed.wake());
setInterval(() => {
  if (!playing) return;
  if (at >= longest - 1) { playing = false; return draw(); }
  go(at + 1);
}, STEP_MS);

const answer = await get(root, `api/${address}`);
if (answer.ok) {
  latest = answer.body;
  await follow();
  byId("tools").hidden = false;
  byId("main").classList.remove("waiting");
  feed.open();
} else {
  byId("main").firstElementChild?.classList.add("early");
  setAttribute(say, "class", "notice notice--bad early");
  replace(say, `${sentence(answer.message)} `, h("a", { href: new URL("rollouts", root).href }, "Back to the runs"));
  setText(byId("state"), "Unavailable");
}

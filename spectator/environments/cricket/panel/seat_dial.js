// @ts-check
// The dial of strokes: along the ground on the inner ring, in the air on the outer one, each where it sends the ball.

import { oddsWords, percent } from "./seat_draft.js";

/** Strokes of a right-hander clockwise from the bowler's end, which is up; the off side is on the right. */
const GROUND = ["straight drive", "drive", "push", "cut", "late cut", "guide", "glance", "flick", "defend"];
const AIR = ["loft straight", "loft cover", "reverse sweep", "upper cut", "scoop", "hook", "sweep", "pull", "slog"];
const [CENTRE, MIDDLE, INNER, OUTER] = [180, 34, 118, 178];

/** @param {{ui: any, charts: any}} tools @param {(shot: string) => void} onChoose */
export function makeDial({ ui: { h, svg, setText, setAttribute }, charts: { round } }, onChoose) {
  const element = h("div", { class: "dial" });
  const drawing = svg("svg", { viewBox: `0 0 ${2 * CENTRE} ${2 * CENTRE}`, role: "radiogroup", "aria-label": "Stroke: inner ring along the ground, outer ring in the air; the bowler is at the top" });
  const rings = [[""], GROUND, AIR];
  /** @type {Map<string, any>} */ const wedges = new Map();
  let [chosen, left] = ["", false];

  for (const [ring, shots] of rings.entries()) for (const [place, shot] of shots.entries()) {
    const name = svg("tspan", { class: "dial__name" });
    const rest = svg("tspan", { class: "dial__name" });
    const odds = svg("tspan", { class: "dial__odds" });
    const text = svg("text", { "text-anchor": "middle", "aria-hidden": "true" }, name, rest, odds);
    const path = svg("path", { class: "dial__area" });
    const wedge = svg("g", { class: "dial__shot", role: "radio", tabindex: "-1", data: { shot } }, path, text);
    wedges.set(shot, { wedge, path, text, lines: [name, rest, odds], ring, place });
    drawing.append(wedge);
  }
  element.append(drawing);
  place();

  /** Draw every wedge where it belongs for a right- or left-hander. */
  function place() {
    for (const [shot, { path, text, lines, ring, place: at }] of wedges) {
      const turn = ((at * 2 * Math.PI) / 9) * (left ? -1 : 1);
      const [from, to] = [[0, MIDDLE], [MIDDLE, INNER], [INNER, OUTER]][ring];
      const spot = (/** @type {number} */ far, /** @type {number} */ angle) => `${round(CENTRE + far * Math.sin(angle))} ${round(CENTRE - far * Math.cos(angle))}`;
      const [a, b] = [turn - Math.PI / 9, turn + Math.PI / 9];
      setAttribute(path, "d", ring === 0 ? `M${spot(to, 0)}A${to} ${to} 0 1 1 ${spot(to, Math.PI)}A${to} ${to} 0 1 1 ${spot(to, 0)}z`
        : `M${spot(from, a)}A${from} ${from} 0 0 1 ${spot(from, b)}L${spot(to, b)}A${to} ${to} 0 0 0 ${spot(to, a)}z`);
      const [x, y] = ring === 0 ? [CENTRE, CENTRE] : spot(ring === 1 ? 89 : 149, turn).split(" ").map(Number);
      const words = shot ? shot.split(" ") : ["own"];
      setText(lines[0], words[0]);
      setText(lines[1], words[1] ?? (shot ? "" : "stroke"));
      const rows = words[1] || !shot ? 3 : 2;
      lines.forEach((/** @type {Element} */ line, /** @type {number} */ index) => { setAttribute(line, "x", x); setAttribute(line, "y", round(y + 4 + 13 * ((index === 2 ? rows - 1 : index) - (rows - 1) / 2))); });
      setAttribute(text, "x", x);
    }
  }

  /** @param {string} shot */
  function choose(shot) {
    onChoose(shot);
    wedges.get(shot)?.wedge.focus({ preventScroll: true });
  }

  drawing.addEventListener("click", (/** @type {any} */ event) => {
    const shot = event.target.closest("[data-shot]")?.dataset.shot;
    if (shot !== undefined && !drawing.closest("fieldset:disabled")) choose(shot);
  });
  drawing.addEventListener("keydown", (/** @type {KeyboardEvent} */ event) => {
    const { ring, place: at } = wedges.get(chosen) ?? { ring: 0, place: 0 };
    const moves = { ArrowRight: [0, left ? -1 : 1], ArrowLeft: [0, left ? 1 : -1], ArrowUp: [1, 0], ArrowDown: [-1, 0] }[event.key];
    if (event.key === "Enter" || event.key === " ") { event.preventDefault(); return void drawing.closest("form")?.requestSubmit(); }
    if (!moves || drawing.closest("fieldset:disabled")) return;
    event.preventDefault();
    const shots = rings[Math.max(0, Math.min(2, ring === 0 && moves[1] ? 1 : ring + moves[0]))];
    choose(shots[(at + moves[1] + shots.length) % shots.length] ?? shots[0]);
  });

  return {
    element,
    /** @param {string} shot @param {boolean} isLeft @param {Record<string, import("./seat_draft.js").Odds>} options @param {Record<string, number>} merit */
    update(shot, isLeft, options, merit) {
      chosen = shot;
      if (left !== isLeft) { left = isLeft; place(); }
      for (const [name, { wedge, path, lines }] of wedges) {
        const odds = options[name];
        setAttribute(wedge, "aria-checked", String(name === chosen));
        setAttribute(wedge, "tabindex", name === chosen ? "0" : "-1");
        setAttribute(wedge, "aria-label", `${name || "the batter’s own stroke"}${odds ? `: ${oddsWords(odds)}` : ""}`);
        setText(lines[2], odds ? `${odds.runs.toFixed(1)} · ${percent(odds.wicket).replace("\u00a0", "")}` : "");
        path.style.setProperty("--merit", `${Math.round(30 * (merit[name] ?? 0))}%`);
        wedge.classList.toggle("dial__shot--best", merit[name] === 1);
      }
      const on = wedges.get(chosen)?.wedge;
      if (on && drawing.lastChild !== on && !drawing.contains(document.activeElement)) drawing.append(on); // its outline lies on top
    },
  };
}

// @ts-check
// Every partnership of an innings as a bar; fetched on first use.

import { ordinal } from "./words.js";

const [WIDTH, HEIGHT, LEFT] = [460, 250, 56];
const HIGHEST = 26;

/**
 * Every partnership of an innings, from its fall of wickets.
 * @param {any} card @param {{runs: number} | null} now the one under way
 * @returns {{wicket: number, runs: number, name: string, now: boolean}[]}
 */
export function standsOf(card, now) {
  const fall = Object.values(card?.fall ?? {}).sort((a, b) => a.wicket - b.wicket);
  const stands = fall.map((one, index) => ({ wicket: one.wicket, runs: one.score - (fall[index - 1]?.score ?? 0), name: one.name, now: false }));
  if (now && stands.length < 10) stands.push({ wicket: stands.length + 1, runs: now.runs, name: "", now: true });
  return stands;
}

/**
 * The bars, their legend, and their figures as a table.
 * @param {any} world @param {any} ui @param {any} charts @returns {{bars: SVGElement[], legend: string, figures: HTMLElement}}
 */
export function drawStands(world, { svg, clip, plain }, charts) {
  const card = world.scorecards?.[world.innings];
  const stands = standsOf(card, card && !card.closed ? world.partnership : null);
  const high = Math.min(HIGHEST, (HEIGHT - 10) / Math.max(6, stands.length));
  const x = charts.linear([0, Math.max(10, ...stands.map((one) => one.runs))], [LEFT, WIDTH - 40]);
  return {
    bars: stands.flatMap((one, index) => [
      svg("text", { class: "chart__stand", x: LEFT - 8, y: index * high + high * 0.7, "text-anchor": "end" }, ordinal(one.wicket)),
      svg("rect", { class: one.now ? "chart__stand-bar is-now" : "chart__stand-bar", x: LEFT, y: index * high + 2, width: Math.max(1, x(one.runs) - LEFT), height: high - 4, rx: 2 }),
      svg("text", { class: "chart__stand", x: x(one.runs) + 6, y: index * high + high * 0.7 }, `${one.runs}${one.now ? "*" : ""}`)]),
    legend: stands.length ? `Partnerships of ${clip(plain(card?.name ?? ""), 30)}, by wicket; * under way` : "No partnership yet.",
    figures: charts.figuresTable("Partnerships", ["Wicket", "Runs", "Ended by the wicket of"], stands.map((one) => [one.wicket, one.runs, one.now ? "under way" : one.name])),
  };
}

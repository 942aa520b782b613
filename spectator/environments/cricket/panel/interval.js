// @ts-check
// An innings that is over, in words, for as long as the next one has not begun, and who did best; pure, fetched with the first interval.

/** Batters and bowlers who are named. */
const BEST = 2;

/** @param {any} lines @param {(one: any, other: any) => number} order @param {(line: any) => string} say */
const best = (lines, order, say, count = BEST) => Object.values(lines ?? {}).sort(order).slice(0, count).map(say).join(", ");
const batting = (/** @type {any} */ lines, /** @type {number=} */ count) => best(lines, (a, b) => (b.runs ?? 0) - (a.runs ?? 0) || (a.balls ?? 0) - (b.balls ?? 0), (line) => `${line.name} ${line.runs ?? 0} off ${line.balls ?? 0}`, count);
const bowling = (/** @type {any} */ lines, /** @type {number=} */ count) => best(lines, (a, b) => (b.wickets ?? 0) - (a.wickets ?? 0) || (a.runs ?? 0) - (b.runs ?? 0), (line) => `${line.name} ${line.wickets ?? 0} for ${line.runs ?? 0}`, count);

/** The best batter and the best bowler of some innings; empty before the first ball. @param {any[]} cards */
function bestOf(cards) {
  const lines = (/** @type {"batting" | "bowling"} */ role) => cards.flatMap((card) => Object.values(card[role] ?? {}));
  const said = [batting(lines("batting"), 1), bowling(lines("bowling"), 1)].filter(Boolean).join(", ");
  return said && `Best: ${said}`;
}

/** The same of the match; super overs are apart. @param {any} world */
export const bestOfMatch = (world) => bestOf(Object.entries(world.scorecards ?? {}).filter(([number]) => Number(number) <= 2).map(([, card]) => card));

/**
 * What the innings before came to.
 * @param {any} world @returns {{runs: number, line: string, detail: string, best: string, batting: string, bowling: string} | null} null where no card is known
 */
export function intervalWords(world) {
  const card = world.scorecards?.[world.innings - 1];
  if (!card) return null;
  const { runs = 0, wickets = 0, overs = "0.0" } = card.total ?? world.score?.[card.side] ?? {};
  const { need, balls } = world.equation ?? {};
  return {
    runs,
    line: `${card.name} ${runs} for ${wickets} in ${overs} overs`,
    detail: need === undefined ? world.super_over ? "The scores are level: a super over decides." : "The other side bats next." : `${world.teams?.[world.batting]?.name ?? "They"} need ${need} off ${balls}.`,
    best: bestOf([card]),
    batting: batting(card.batting),
    bowling: bowling(card.bowling),
  };
}

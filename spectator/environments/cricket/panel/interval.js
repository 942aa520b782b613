// @ts-check
// An innings that is over, in words, for as long as the next one has not begun; pure, fetched with the first interval.

/** Batters and bowlers who are named. */
const BEST = 2;

/** @param {any} lines @param {(one: any, other: any) => number} order @param {(line: any) => string} say */
const best = (lines, order, say) => Object.values(lines ?? {}).sort(order).slice(0, BEST).map(say).join(", ");

/**
 * What the innings before came to.
 * @param {any} world @returns {{line: string, detail: string, batting: string, bowling: string} | null} null where no card is known
 */
export function intervalWords(world) {
  const card = world.scorecards?.[world.innings - 1];
  if (!card) return null;
  const { runs = 0, wickets = 0, overs = "0.0" } = card.total ?? world.score?.[card.side] ?? {};
  const { need, balls } = world.equation ?? {};
  return {
    line: `${card.name} ${runs} for ${wickets} in ${overs} overs`,
    detail: need === undefined ? world.super_over ? "The scores are level: a super over decides." : "The other side bats next." : `${world.teams?.[world.batting]?.name ?? "They"} need ${need} off ${balls}.`,
    batting: best(card.batting, (a, b) => (b.runs ?? 0) - (a.runs ?? 0), (line) => `${line.name} ${line.runs ?? 0} off ${line.balls ?? 0}`),
    bowling: best(card.bowling, (a, b) => (b.wickets ?? 0) - (a.wickets ?? 0) || (a.runs ?? 0) - (b.runs ?? 0), (line) => `${line.name} ${line.wickets ?? 0} for ${line.runs ?? 0}`),
  };
}

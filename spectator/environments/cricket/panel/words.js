// @ts-check
// How cricket's figures are written; pure.

/** @param {number} runs @param {number} balls per hundred balls, one decimal; a dash before the first */
export const strikeRate = (runs, balls) => (balls > 0 ? ((100 * runs) / balls).toFixed(1) : "–");

/** Valid balls in overs notation: `3.4` is 22. @param {unknown} overs */
export function ballsOf(overs) {
  const [whole, rest] = String(overs ?? "0").split(".");
  return 6 * Number(whole || 0) + Number(rest || 0);
}

/** @param {number} runs @param {unknown} overs runs an over */
export function economy(runs, overs) {
  const balls = ballsOf(overs);
  return balls > 0 ? ((6 * runs) / balls).toFixed(1) : "–";
}

/** A player's last name, for narrow places. @param {unknown} name */
export const surname = (name) => String(name ?? "").split(" ").at(-1) ?? "";

/** What kind of mark a ball's sign is, for its look. @param {string} mark */
export function markKind(mark) {
  if (mark.includes("W")) return "wicket";
  if (/wd|nb|b$/.test(mark)) return "extra";
  if (mark === "6") return "six";
  if (mark === "4") return "four";
  return mark === "·" ? "dot" : "run";
}

/** A mark in a line of text, where a dot would be lost. @param {string} mark @param {string} [wicket] what a wicket is called */
export const markName = (mark, wicket = mark) => (mark === "·" ? "dot" : mark === "W" ? wicket : mark);

/** A mark as it is read aloud. @param {string} mark */
export function markWords(mark) {
  const kind = markKind(mark);
  if (kind === "dot") return "no run";
  if (kind === "wicket") return mark === "W" ? "wicket" : `${mark.replace("W", "")} and a wicket`;
  const [, runs, extra] = /^(\d*)(wd|nb|b|lb)$/.exec(mark) ?? [];
  return extra ? `${runs ? `${runs} from a ` : ""}${{ wd: "wide", nb: "no-ball", b: "bye", lb: "leg-bye" }[extra]}` : mark;
}

/** A ball of an over as it is read aloud, counted as scorers count: a wide is bowled again. @param {any} over @param {number} index */
export function ballName({ number, marks }, index) {
  const mark = marks[index];
  return `Over ${number}, ball ${validBalls(marks.slice(0, index)) + 1}: ${/^\d$/.test(mark) ? `${mark} run${mark === "1" ? "" : "s"}` : markWords(mark)}`;
}

/** `1` as `1st`. @param {number} number */
export function ordinal(number) {
  const last = number % 100;
  const ending = last > 10 && last < 14 ? "th" : { 1: "st", 2: "nd", 3: "rd" }[number % 10] ?? "th";
  return `${number}${ending}`;
}

/** Balls of an over that count. @param {string[]} marks */
export const validBalls = (marks) => marks.filter((mark) => !/wd|nb/.test(mark)).length;

/** What a ball, a ball of an over, a wicket and the end of an over are called in links. */
export const momentNames = {
  /** @param {number} innings @param {number} delivery of the innings from 1, as forecasts count them: wides and no-balls included */
  ball: (innings, delivery) => `ball-${innings}-${delivery}`,
  /** @param {number} innings @param {number} over @param {number} place of its deliveries, from 1 */
  ofOver: (innings, over, place) => `over-${innings}-${over}-${place}`,
  /** @param {number} innings @param {number} over */
  overEnd: (innings, over) => `over-${innings}-${over}`,
  /** @param {number} innings @param {number} wicket */
  wicket: (innings, wicket) => `wicket-${innings}-${wicket}`,
};

/** What cricket calls an event. @param {any} event @returns {string[]} */
export function moments({ type, data, patch }) {
  if (type === "cricket.over_completed") return [momentNames.overEnd(data.innings, data.over)];
  if (type === "cricket.wicket_fell") return [momentNames.wicket(data.innings, data.wicket)];
  if (type === "cricket.forecast") return [momentNames.ball(data.innings, data.delivery)];
  const over = type === "cricket.ball_bowled" ? patch?.world?.over : null;
  return over?.marks ? [momentNames.ofOver(data.innings, over.number, over.marks.length)] : [];
}

/** What people call the two sides. @param {any} world @returns {Record<string, string>} */
export function names(world) {
  /** @type {Record<string, string>} */
  const called = {};
  for (const [actor, team] of Object.entries(world?.teams ?? {})) {
    const role = world.result ? "" : actor === world.batting ? " · batting" : actor === world.bowling ? " · bowling" : "";
    called[actor] = `${team.name}${role}`;
  }
  return called;
}

/** An innings by its number: those after the second are of super overs. @param {number} number */
export const inningsName = (number) => (number > 2 ? "super over" : `${ordinal(number)} innings`);

/** Which innings this is, in words. @param {any} world */
export const inningsWords = ({ super_over, innings }) => (super_over ? "Super over" : innings ? inningsName(innings) : "");

/** Whether an innings is over and the next one has no ball yet. @param {any} world */
export const isInterval = ({ last_ball, innings, over }) => Boolean(last_ball) && innings > 1 && over?.number === 1 && !over.marks.length;

/**
 * Runs and wickets of every over so far, the one under way included.
 * @param {any} card @param {{runs: number, wickets: number} | null} now the innings' score while it is under way
 * @returns {{over: number, runs: number, wickets: number, score: number, unfinished: boolean}[]}
 */
export function oversOf(card, now) {
  const done = Object.entries(card?.overs ?? {}).map(([over, line]) => ({
    over: Number(over), runs: line.runs ?? 0, wickets: line.wickets ?? 0, score: line.score ?? 0, unfinished: false,
  })).sort((a, b) => a.over - b.over);
  if (!now) return done;
  const runs = now.runs - (done.at(-1)?.score ?? 0);
  const wickets = now.wickets - done.reduce((sum, over) => sum + over.wickets, 0);
  if (runs > 0 || wickets > 0) done.push({ over: done.length + 1, runs, wickets, score: now.runs, unfinished: true });
  return done;
}

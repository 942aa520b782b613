// @ts-check
// The duel before a ball and the victory after the last one, in words; pure.

/** @param {string} words */
export const sentence = (words) => words.charAt(0).toUpperCase() + words.slice(1) + (words && !words.endsWith(".") ? "." : "");

/** Who faces whom, what is needed, and how many changes are free. @param {any} view what the seat sees */
export function sceneWords({ phase, innings, striker, bowler, need, score, projected, you, super_over: isSuperOver }) {
  const parts = [];
  if (innings === 1 && score?.balls === 0 && ["openers", "bowler"].includes(phase)) parts.push(`you ${phase === "openers" ? "bat" : "bowl"} first`); // how the toss ended may be withheld elsewhere
  if (striker && bowler && !["bowler", "batter"].includes(phase)) parts.push(`${striker.name}, ${striker.runs} off ${striker.balls}, faces ${bowler.name}, ${bowler.kind}`);
  if (need !== undefined && score) parts.push(`${need} needed from ${score.balls_left}`);
  else if (typeof projected === "number" && !isSuperOver) parts.push(`on course for ${projected}`);
  if (you && ["bowl", "bat"].includes(phase)) parts.push(you.free_calls > 0 ? `${you.free_calls} free change${you.free_calls === 1 ? "" : "s"} left in this over` : "no free change left in this over: a further one costs reward");
  return parts.map(sentence).join(" ");
}

/** "I beat Old Pro by 4 runs"; empty unless one person of this page won. @param {any} state @param {string[]} mine */
export function winWords({ episode = {}, world = {} }, mine) {
  const [, winner = "", margin = ""] = /^(.*?) w[io]n (.*?)\.?$/.exec((world.result ?? episode.result ?? "").replace(/^Match tied; (.*) won the/, "$1 won in the")) ?? [];
  if (mine.length !== 1 || !winner || winner !== world.teams?.[mine[0]]?.name) return "";
  const rival = Object.entries(episode.seats ?? {}).find(([actor]) => actor !== mine[0])?.[1];
  return `I beat ${/** @type {any} */ (rival)?.label ?? "my rival"} ${margin}`;
}

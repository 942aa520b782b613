// @ts-check
// The decision that forms, put together from ephemeral frames (docs/live-protocol.md); pure.

/** @typedef {{frame: "thought", actor: string, turn: number, part: number, whole: boolean, done: boolean, elapsed_s: number, thought: string, answer: string, withheld?: boolean}} ThoughtFrame */
/** @typedef {{actor: string, thought: string, answer: string, seconds: number, done: boolean, withheld: boolean}} Forming */

const KEPT = 4_000;

export class Thoughts {
  /** @type {(ThoughtFrame & {began_ms: number}) | null} */ #now = null;

  /** @param {ThoughtFrame} frame @param {number} now_ms */
  take(frame, now_ms) {
    const known = this.#now?.actor === frame.actor && this.#now.turn === frame.turn ? this.#now : null;
    const began_ms = known?.began_ms ?? now_ms - 1_000 * frame.elapsed_s;
    if (frame.whole) this.#now = { ...frame, began_ms };
    else if (known && frame.part === known.part + 1) {
      this.#now = { ...frame, began_ms, thought: (known.thought + frame.thought).slice(-KEPT), answer: (known.answer + frame.answer).slice(-KEPT) };
    } else if (known && frame.done) this.#now = { ...known, done: true };
  }

  /** Forget what forms: another episode, or another connection. */
  clear() {
    this.#now = null;
  }

  /**
   * What forms after the decision of turn `decided`; `null` when nothing is known to.
   * @param {number} decided @param {number} now_ms @returns {Forming | null}
   */
  after(decided, now_ms) {
    const now = this.#now;
    if (!now || now.turn <= decided) return null;
    const seconds = now.done ? now.elapsed_s : Math.max(0, (now_ms - now.began_ms) / 1_000);
    return { actor: now.actor, thought: now.thought, answer: now.answer, seconds, done: now.done, withheld: now.withheld === true };
  }
}

const REASON = /"(?:reason|reasoning|rationale)"\s*:\s*"((?:[^"\\]|\\.)*)/;
const NAME = /"(?:tool|name)"\s*:\s*"([\w.-]{1,64})"/;
const LEADING = /^\s*([A-Za-z_][\w.-]{0,63}) \{/;
const MEMBER = /"([\w.-]{1,40})"\s*:\s*("(?:[^"\\]|\\.){0,200}"|-?\d[\d.eE+-]*|true|false)/g;
const OWN = new Set(["reason", "reasoning", "rationale", "tool", "name"]);
const ARGUMENTS = 8;

/**
 * What can be read of an answer that is not complete: prose, a tool call, one in marks, or JSON.
 * @param {string} answer
 * @returns {{prose: string, tool: string, given: [string, string][]}}
 */
export function legible(answer) {
  const leading = LEADING.exec(answer);
  const start = leading ? 0 : answer.search(/<(?:tool_call|tool_use|function|invoke)|```|\{/);
  const before = start < 0 ? answer.replace(/<[a-z_]*$/, "") : answer.slice(0, start);
  const call = start < 0 ? "" : answer.slice(start);
  const reason = REASON.exec(call);
  const prose = [before.trim(), reason ? unescaped(reason[1]) : ""].filter(Boolean).join("\n\n");
  const tool = leading?.[1] ?? NAME.exec(call)?.[1] ?? "";
  /** @type {[string, string][]} */
  const given = [];
  for (const [, key, value] of call.matchAll(MEMBER)) {
    if (!OWN.has(key) && given.length < ARGUMENTS) given.push([key, value.startsWith('"') ? unescaped(value.slice(1, -1)) : value]);
  }
  return { prose, tool, given };
}

/** @param {string} text the inside of a JSON string, which may end in the middle of an escape */
function unescaped(text) {
  const whole = text.replace(/\\(?:u[\da-fA-F]{0,3})?$/, "");
  try {
    return String(JSON.parse(`"${whole.replace(/[\u0000-\u001f]/g, " ")}"`));
  } catch {
    return whole;
  }
}

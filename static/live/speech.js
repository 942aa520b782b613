// @ts-check
// Which lines of commentary are said aloud while a viewer moves through an episode, and which give way.

/** @typedef {"lead" | "analyst"} Speaker */
/** @typedef {{seq: number, text: string, caption: string, priority: number, url: string | null, interrupt: boolean, speaker: Speaker, reply: Utterance | null}} Utterance `text` is for the voice and `caption` for reading; `reply` is said right after it */
/** @typedef {import("./timeline.js").Timeline} Timeline */

/** Milliseconds after which a line is too old to be said, by its priority. */
export const LIFE_MS = [20_000, 8_000, 6_000, 3_000];
/** Fastest replay that is spoken at. */
export const FASTEST = 1.5;
const NEAR = 60;
/** Priority of what the second commentator answers: it gives way to what must be heard. */
const REPLY = 1;

/**
 * The line to begin when the viewer's place moves from `from` to `to`; null when there is none.
 *
 * At the live edge of an episode with server voices, a line is said when its clip arrives. Anywhere else it is said
 * at its place, by its clip if there is one.
 * @param {Timeline} timeline @param {number} from @param {number} to @param {boolean} byClip whether the server sends clips here
 * @returns {Utterance | null}
 */
export function lineToSay(timeline, from, to, byClip) {
  /** @type {Utterance | null} */
  let best = null;
  for (let seq = from + 1; seq <= to; seq += 1) {
    const found = byClip ? toldClip(timeline, seq) : toldLine(timeline, seq);
    if (found && best && found.speaker === "analyst" && found.seq === best.seq) best.reply = found;
    else if (found && (!best || found.priority <= best.priority)) best = found;
  }
  return best;
}

/** @param {Timeline} timeline @param {number} seq @returns {Utterance | null} */
function toldClip(timeline, seq) {
  const clip = timeline.eventAt(seq);
  if (clip?.type !== "narration.clip") return null;
  const line = timeline.eventAt(clip.data.for_seq);
  const speaker = clip.data.speaker ?? "lead";
  const priority = speaker === "analyst" ? REPLY : line?.data?.priority ?? 2;
  if (line && Date.parse(clip.at) - Date.parse(line.at) > LIFE_MS[priority]) return null;
  const caption = (speaker === "analyst" ? line?.data?.reply : line?.data?.text) || clip.data.text;
  return { seq: clip.data.for_seq, text: clip.data.text || line?.data?.radio || line?.data?.text || "", caption, priority, url: clip.data.url, interrupt: Boolean(clip.data.interrupt), speaker, reply: null };
}

/** @param {Timeline} timeline @param {number} seq @returns {Utterance | null} */
function toldLine(timeline, seq) {
  const line = timeline.eventAt(seq);
  if (line?.type !== "narration.line") return null;
  const { text, radio, priority, reply } = line.data;
  const [clip, answered] = [clipOf(timeline, seq), clipOf(timeline, seq, "analyst")];
  return { seq, text: clip?.text || radio || text, caption: text, priority, url: clip?.url ?? null, interrupt: priority === 0, speaker: "lead",
    reply: reply ? { seq, text: answered?.text || reply, caption: reply, priority: REPLY, url: answered?.url ?? null, interrupt: false, speaker: "analyst", reply: null } : null };
}

/** What was told of a line's clip soon after it. @param {Timeline} timeline @param {number} seq @param {Speaker} [speaker] @returns {any} */
export function clipOf(timeline, seq, speaker = "lead") {
  for (let later = seq + 1; later <= seq + NEAR; later += 1) {
    const event = timeline.eventAt(later);
    if (!event) return null;
    if (event.type === "narration.clip" && event.data.for_seq === seq && (event.data.speaker ?? "lead") === speaker) return event.data;
  }
  return null;
}

/** One line is said, at most one waits, and what waits grows old. */
export class Turns {
  /** @type {Utterance | null} */ #said = null;
  /** @type {{line: Utterance, since: number} | null} */ #waiting = null;

  /** The line that is being said. */
  get said() { return this.#said; }

  /**
   * @param {Utterance} line @param {number} now milliseconds
   * @returns {"say" | "interrupt" | "wait" | "drop"}
   */
  offer(line, now) {
    if (!this.#said) return this.#begin(line, "say");
    if ((line.interrupt || line.priority === 0) && this.#said.priority > 0) return this.#begin(line, "interrupt");
    if (this.#waiting && line.priority > this.#waiting.line.priority) return "drop";
    this.#waiting = { line, since: now };
    return "wait";
  }

  /** The line that is being said came to its end. @param {number} now @returns {Utterance | null} the one to say next */
  over(now) {
    const next = this.#waiting;
    const reply = this.#said?.reply;
    if (reply && next?.line.priority !== 0) {
      this.#said = reply;
      return reply;
    }
    this.#said = null;
    this.#waiting = null;
    if (!next || now - next.since > LIFE_MS[next.line.priority]) return null;
    this.#said = next.line;
    return next.line;
  }

  /** Nothing is said any more. */
  clear() {
    this.#said = null;
    this.#waiting = null;
  }

  /** @param {Utterance} line @param {"say" | "interrupt"} how */
  #begin(line, how) {
    this.#said = line;
    this.#waiting = null;
    return how;
  }
}

// @ts-check
// The viewer's place in an episode: at the live edge or behind it, playing or paused.

import { Timeline } from "./timeline.js";

export const SPEEDS = [0.5, 1, 2, 4, 8];
/** Seconds at speed 1 that a beat lasts, and a turn without one: those of the broadcast pace. */
const BEAT_S = 2;
const TURN_S = 0.15;

export class Player {
  #timeline;
  #seq = 0;
  #following = true;
  #playing = false;
  #speed = 1;
  #due = 0;

  /** @param {Timeline} timeline */
  constructor(timeline) {
    this.#timeline = timeline;
  }

  /** Number of the event after which the page is drawn. */
  get seq() { return this.#following ? this.#timeline.headSeq : Math.min(this.#seq, this.#timeline.headSeq); }
  /** Whether it stays at the newest event. */
  get following() { return this.#following; }
  /** Whether it moves by itself through the past. */
  get playing() { return this.#playing; }
  get speed() { return this.#speed; }
  /** Whether the place is the newest event. */
  get atEdge() { return this.seq === this.#timeline.headSeq; }
  /** Beats between here and the newest event. */
  get behind() {
    if (this.#following || this.#timeline.inParts) return 0;
    const stops = this.#timeline.stops;
    return stops.length - 1 - this.#stopIndex(this.seq);
  }

  follow() {
    this.#following = true;
    this.#playing = false;
  }

  /** @param {number} seq */
  seek(seq) {
    this.#following = false;
    this.#seq = Math.max(this.#timeline.firstSeq, Math.min(seq, this.#timeline.headSeq));
    this.#due = 0;
  }

  /** Pause at the end of the turn of event `seq`. @param {number} seq */
  goTo(seq) {
    this.pause();
    this.seek(this.#timeline.turnEnd(seq));
  }

  /** Pause here. */
  pause() {
    if (this.#following) this.seek(this.#timeline.headSeq);
    this.#playing = false;
  }

  /** Move on from here, or from the beginning when everything has been seen. @param {boolean} live whether more events will come */
  play(live) {
    if (this.seq >= this.#timeline.headSeq) {
      if (live) return this.follow();
      this.seek(this.#timeline.firstSeq);
    }
    this.#following = false;
    this.#playing = true;
    this.#due = 0;
  }

  /** @param {number} speed one of SPEEDS */
  setSpeed(speed) {
    if (SPEEDS.includes(speed)) this.#speed = speed;
  }

  /** Go to the beat before or after this one. @param {-1 | 1} direction */
  stepBeat(direction) {
    this.pause();
    const stops = this.#timeline.stops;
    const here = this.#stopIndex(this.seq);
    const between = direction < 0 && stops[here] !== undefined && stops[here] < this.seq;
    this.seek(stops[Math.max(0, Math.min(stops.length - 1, between ? here : here + direction))] ?? this.seq);
  }

  /** Go to the decision before or after this one. @param {-1 | 1} direction */
  stepTurn(direction) {
    this.pause();
    this.seek(direction < 0 ? this.#timeline.previousTurn(this.seq) : this.#timeline.nextTurn(this.seq));
  }

  /** Go to the end of the beat with the big moment before or after this one. @param {-1 | 1} direction */
  stepMoment(direction) {
    this.#stepTo(this.#timeline.moments.map((moment) => moment.seq), direction);
  }

  /** Go to the end of the chapter before or after this place. @param {-1 | 1} direction */
  stepChapter(direction) {
    this.#stepTo(this.#timeline.chapters, direction);
  }

  /** @param {number[]} seqs @param {-1 | 1} direction */
  #stepTo(seqs, direction) {
    this.pause();
    const timeline = this.#timeline;
    const places = seqs.map((seq) => timeline.stops[timeline.stopAt(seq)] ?? seq);
    const found = direction > 0 ? places.find((place) => place > this.seq) : places.findLast((place) => place < this.seq);
    if (found !== undefined) this.seek(found);
  }

  /** Place on the scrub bar: an index into the timeline's stops, or the number of an event where not all of them are known. */
  get position() { return this.#timeline.inParts ? this.seq : Math.max(0, this.#stopIndex(this.seq)); }
  /** The last place on the scrub bar. */
  get lastPosition() { return this.#timeline.inParts ? this.#timeline.headSeq : Math.max(0, this.#timeline.stops.length - 1); }

  /** @param {number} position */
  seekPosition(position) {
    if (this.#timeline.inParts) return this.goTo(position);
    this.seek(this.#timeline.stops[position] ?? this.#timeline.headSeq);
  }

  /**
   * Move on as far as time allows.
   * @param {number} now_s a clock that only goes forward
   * @param {boolean} live whether more events will come
   * @returns {boolean} whether anything moved or stopped
   */
  tick(now_s, live) {
    if (!this.#playing) return false;
    if (this.#due === 0) this.#due = now_s + this.#dwell();
    let moved = false;
    while (this.#playing && now_s >= this.#due) {
      this.#seq = this.#timeline.nextTurn(this.#seq);
      this.#due = Math.max(this.#due, now_s - 1) + this.#dwell();
      moved = true;
      if (this.#seq >= this.#timeline.headSeq) {
        if (live) this.follow();
        else this.#playing = false;
      }
    }
    return moved;
  }

  /** Seconds to stay at this place. */
  #dwell() {
    return Math.max(TURN_S, BEAT_S * this.#timeline.beatsAt(this.#seq)) / this.#speed;
  }

  /** Index of the last stop at or before `seq`. @param {number} seq */
  #stopIndex(seq) {
    const stops = this.#timeline.stops;
    let low = 0;
    let high = stops.length;
    while (low < high) {
      const middle = (low + high) >> 1;
      if (stops[middle] <= seq) low = middle + 1;
      else high = middle;
    }
    return low - 1;
  }
}

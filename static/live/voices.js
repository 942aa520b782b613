// @ts-check
// The making of sound: clips through Web Audio, and the browser's own speech with its quirks.

const FADE_S = 0.08;
/** Browsers drop what is spoken right after a cancel. */
const AFTER_CANCEL_MS = 60;
const LONGEST_TEXT = 200;
/** Pitch of the second commentator; 1 is the voice's own. */
const LOWER = 0.8;
/** Longest that an utterance may take: a browser may forget to say that it ended. */
const watchdogMs = (/** @type {string} */ text) => 3_000 + 400 * text.split(/\s+/).length;

/** Plays clips. Create it in a click, or the browser keeps it silent. */
export class ClipVoice {
  #context = new AudioContext();
  #gain = this.#context.createGain();
  #meter = this.#context.createAnalyser();
  /** @type {Map<string, Promise<AudioBuffer>>} */ #clips = new Map();
  /** @type {AudioBufferSourceNode | null} */ #playing = null;

  constructor() {
    this.#meter.fftSize = 256;
    this.#gain.connect(this.#meter).connect(this.#context.destination);
    void this.#context.resume();
  }

  /** @param {number} volume 0 .. 1 */
  setVolume(volume) { this.#gain.gain.value = volume * volume; }

  /** How loud it is now, 0 .. 1. */
  get level() {
    if (!this.#playing) return 0;
    const samples = new Uint8Array(this.#meter.fftSize);
    this.#meter.getByteTimeDomainData(samples);
    return samples.reduce((most, sample) => Math.max(most, Math.abs(sample - 128)), 0) / 128;
  }

  /** Have a clip ready. @param {string} url */
  prepare(url) {
    if (this.#clips.size > 24) this.#clips.delete([...this.#clips.keys()][0]);
    if (!this.#clips.has(url)) {
      const fetching = this.#fetch(url);
      fetching.catch(() => this.#clips.delete(url));
      this.#clips.set(url, fetching);
    }
    return /** @type {Promise<AudioBuffer>} */ (this.#clips.get(url));
  }

  /** Play a clip to its end. @param {string} url @returns {Promise<void>} */
  async play(url) {
    const buffer = await this.prepare(url);
    this.stop();
    await this.#context.resume();
    const source = this.#context.createBufferSource();
    const envelope = this.#context.createGain();
    source.buffer = buffer;
    source.connect(envelope).connect(this.#gain);
    Object.assign(source, { envelope });
    this.#playing = source;
    return new Promise((resolve) => {
      source.onended = () => {
        if (this.#playing === source) this.#playing = null;
        resolve();
      };
      source.start();
    });
  }

  /** Fade out the current clip. */
  stop() {
    const source = /** @type {any} */ (this.#playing);
    this.#playing = null;
    if (!source) return;
    const now = this.#context.currentTime;
    source.envelope.gain.setValueAtTime(1, now);
    source.envelope.gain.linearRampToValueAtTime(0, now + FADE_S);
    source.stop(now + FADE_S);
  }

  /** @param {string} url */
  async #fetch(url) {
    const answer = await fetch(url);
    if (!answer.ok) throw new Error(`the clip could not be fetched: ${answer.status}`);
    return this.#context.decodeAudioData(await answer.arrayBuffer());
  }
}

/** Speaks by the browser itself. */
export class BrowserVoice {
  #volume = 1;
  #name = "";
  #cancelledAt = 0;
  #speaking = false;

  /** The voices to choose from, those of this machine first; none until the browser has found them. */
  static get voices() {
    if (typeof speechSynthesis === "undefined") return [];
    const english = speechSynthesis.getVoices().filter((voice) => voice.lang.toLowerCase().startsWith("en"));
    return english.sort((a, b) => Number(b.localService) - Number(a.localService));
  }

  /** @param {() => void} listener */
  static onVoices(listener) {
    if (typeof speechSynthesis !== "undefined") speechSynthesis.addEventListener("voiceschanged", listener);
  }

  /** @param {number} volume 0 .. 1 */
  setVolume(volume) { this.#volume = volume; }
  /** @param {string} name */
  choose(name) { this.#name = name; }
  get level() { return this.#speaking ? 0.4 : 0; }

  /** Speak to the end. @param {string} text @param {boolean} other by another voice than the one that was chosen @returns {Promise<void>} */
  async play(text, other = false) {
    const rest = this.#cancelledAt + AFTER_CANCEL_MS - performance.now();
    if (rest > 0) await new Promise((resolve) => setTimeout(resolve, rest));
    const [first] = BrowserVoice.voices;
    if (!first) throw new Error("this browser has no voice");
    const words = new SpeechSynthesisUtterance(text.slice(0, LONGEST_TEXT));
    const own = BrowserVoice.voices.find((voice) => voice.name === this.#name) ?? first;
    words.voice = other ? BrowserVoice.voices.find((voice) => voice !== own) ?? own : own;
    if (other) words.pitch = LOWER;
    words.volume = this.#volume;
    this.#speaking = true;
    return new Promise((resolve, reject) => {
      const watchdog = setTimeout(() => this.stop(), watchdogMs(words.text));
      const over = (/** @type {() => void} */ settle) => () => {
        clearTimeout(watchdog);
        this.#speaking = false;
        settle();
      };
      words.onend = over(resolve);
      words.onerror = (event) => over(() => (["canceled", "interrupted"].includes(event.error) ? resolve() : reject(new Error(`this browser could not speak: ${event.error}`))))();
      speechSynthesis.speak(words);
    });
  }

  stop() {
    if (typeof speechSynthesis === "undefined" || !this.#speaking) return;
    this.#cancelledAt = performance.now();
    this.#speaking = false;
    speechSynthesis.cancel();
  }
}

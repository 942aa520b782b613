// @ts-check
// What viewers would call: three cards before a decision, and afterwards what each lost. Docked above the player.

import { call, get, recallSeat } from "../live/api.js";
import { h, replace, setAttribute, setText } from "./dom.js";

/** @typedef {{turn: number, words: string, cards: string[], window_s: number, votes: number}} Question */
/** @typedef {{turn: number, votes: number, cards: {words: string, votes: number, best: boolean, regret: number}[], crowd: {regret: number}, captain: {regret: number}}} Result */

const [VOTER, NAME, STREAK, HIDDEN] = ["voter", "name", "streak", "hidden"].map((part) => `spectator.crowd.${part}`);

/** @param {string} key */
const recall = (key) => { try { return localStorage.getItem(key) ?? ""; } catch { return ""; } };
/** @param {string} key @param {string} text */
const remember = (key, text) => { try { localStorage.setItem(key, text); } catch { /* a frame without storage begins again */ } };

/** A secret of this browser's own: no account. */
function secret() {
  const kept = recall(VOTER);
  if (/^[0-9a-f]{32}$/.test(kept)) return kept;
  const drawn = [...crypto.getRandomValues(new Uint8Array(16))].map((one) => one.toString(16).padStart(2, "0")).join("");
  remember(VOTER, drawn);
  return drawn;
}

/** Milliseconds in which a new question takes no tap: it may be meant for the one before. */
const SETTLING_MS = 300;

const today = () => new Date().toISOString().slice(0, 10);

/** Best cards in a row today, with one more that was or was not. @param {boolean} isBest */
function streakWith(isBest) {
  const [day, before] = recall(STREAK).split(" ");
  const streak = isBest ? (day === today() ? Number(before) || 0 : 0) + 1 : 0;
  remember(STREAK, `${today()} ${streak}`);
  return streak;
}

const points = (/** @type {{regret: number}} */ { regret }) => regret.toFixed(2);
const share = (/** @type {number} */ part, /** @type {number} */ all) => `${Math.round((100 * part) / all)} %`;

/** @param {string} root absolute address of the lobby @param {string} episodeId @param {{send: (message: object) => boolean}} source @param {HTMLElement} last where the last result is shown after the end */
export function mountCrowd(root, episodeId, source, last) {
  const token = secret();
  /** @type {Question | null} */ let question = null;
  /** The turn of the newest result. */ let judged = -1;
  let over = false;
  let shownAt = 0;
  /** Own calls by turn. @type {Map<number, number>} */ const called = new Map();
  const ask = h("p", { class: "crowd__ask" });
  const count = h("span", { class: "quiet crowd__count" });
  const said = h("span", {}, "Tap what you would call. The first tap counts. ");
  const cards = h("div", { class: "crowd__cards", role: "group", "aria-label": "What would you call?" });
  const time = h("i", { class: "crowd__time" });
  const name = h("input", { class: "crowd__name", maxlength: "24", autocomplete: "nickname", value: recall(NAME), on: { change: () => remember(NAME, name.value.trim()) } });
  const mine = h("a", { target: "_blank", hidden: true }, "My card");
  const menu = h("div", { class: "crowd__menu" },
    h("label", {}, "Name for the table, if you like", name),
    h("p", { class: "quiet" }, "No account. Points are hundredths of a chance to win, lost against the best call."),
    h("p", {}, h("a", { href: new URL("calls", root).href, target: "_blank" }, "Today’s table")), mine);
  const more = h("details", { class: "crowd__more" }, h("summary", { "aria-label": "Name, table, hide" }, "•••"), menu);
  const toggle = h("button", { class: "crowd__toggle", type: "button", on: { click: () => { remember(HIDDEN, dock.classList.contains("crowd--small") ? "" : "1"); size(); toggle.focus(); } } });
  const dock = h("section", { class: "card crowd", id: "crowd", "aria-label": "Call along" },
    h("div", { class: "crowd__head" }, ask, count, more, toggle), time, cards, h("p", { class: "crowd__said" }, said));

  function size() {
    const small = recall(HIDDEN) === "1";
    dock.classList.toggle("crowd--small", small);
    more.open = false;
    (small ? dock.firstElementChild : menu)?.append(toggle); // open, it is behind the dots: the strip stays low
    setText(toggle, small ? "Call along" : "Hide the cards");
    setAttribute(toggle, "aria-expanded", String(!small));
  }

  /** @param {number} card */
  async function choose(card) {
    const asked = /** @type {Question} */ (question);
    called.set(asked.turn, card);
    drawCards();
    const sent = { turn: asked.turn, card, token, name: name.value.trim() };
    if (source.send({ frame: "vote", ...sent })) return; // answered by a frame
    const { ok, body, wrong, message } = await call(root, `api/episodes/${encodeURIComponent(episodeId)}/votes`, sent);
    const problem = ok ? undefined : String(body?.type).replace("/problems/", "");
    hear({ turn: asked.turn, voter: body?.voter, refused: problem, reason: wrong[0] ? `${wrong[0].field} ${wrong[0].rule}` : message });
  }

  /** @param {{turn: number, voter?: string, refused?: string, reason?: string}} answer to an own call */
  function hear({ turn, voter, refused, reason }) {
    if (voter) {
      mine.href = new URL(`calls/${today()}/${voter}`, root).href;
      if (question?.turn === turn) tell("Called. The result comes after the decision. ");
      return;
    }
    if (refused !== "already-voted") called.delete(turn);
    tell(`${refused === "voting-closed" ? "Too late: the decision was made." : reason} `);
    drawCards();
  }

  /** @param {string} words */
  function tell(words) {
    setAttribute(said, "role", "status"); // only what follows an own call is read aloud
    setText(said, words);
  }

  function drawCards() {
    if (!question) return;
    const own = called.get(question.turn);
    for (const [place, button] of [...cards.children].entries()) {
      setAttribute(button, "aria-pressed", String(place === own));
      setAttribute(button, "aria-disabled", own === undefined ? null : "true");
    }
  }

  /** @param {Question} asked */
  function show(asked) {
    [question, shownAt] = [asked, performance.now()];
    setText(ask, asked.words);
    said.removeAttribute("role"); // on a phone the question takes its line
    countVotes(asked.votes);
    if (!document.hidden) {
      const running = time.cloneNode();
      running.style.setProperty("--window", `${asked.window_s}s`);
      cards.previousElementSibling?.replaceWith(running);
    }
    const focused = [...cards.children].indexOf(/** @type {any} */ (document.activeElement));
    replace(cards, ...asked.cards.map((words, card) => h("button", { class: "crowd__card", type: "button", on: { click: () => { if (!called.has(asked.turn) && performance.now() - shownAt > SETTLING_MS) void choose(card); } } }, words)));
    if (focused >= 0) /** @type {HTMLElement} */ (cards.children[focused])?.focus();
    drawCards();
  }

  /** @param {number} votes */
  function countVotes(votes) {
    if (question) question.votes = votes;
    setText(count, votes ? `${votes.toLocaleString("en")} called` : "");
  }

  /** The result of the last question, with the ending; it may come after the end. @param {number} turn */
  async function tellLast(turn) {
    last.hidden = false;
    setText(last, "The result of the last call comes in a moment.");
    const { body } = judged === turn ? { body: null } : await get(root, `api/episodes/${encodeURIComponent(episodeId)}/questions`);
    if (body?.result?.turn === turn) showResult(body.result);
    last.hidden = judged !== turn;
    setText(last, `The last call. ${said.textContent}`);
  }

  /** @param {Result} result */
  function showResult({ turn, cards: found, votes, crowd, captain }) {
    const own = called.get(turn);
    called.delete(turn);
    judged = turn;
    const best = found.find((card) => card.best) ?? found[0];
    const others = `captain ${points(captain)}, crowd ${points(crowd)} points. `;
    if (own === undefined) {
      said.removeAttribute("role");
      return setText(said, `Best of the last three: ${best.words}; ${share(best.votes, votes)} called it. Lost: ${others}`);
    }
    const streak = streakWith(found[own].best);
    mine.hidden = false;
    const verdict = found[own].best ? `${best.words} was best of the three${streak > 1 ? `, ${streak} in a row` : ""}!` : `Best of the three: ${best.words}.`;
    tell(`Lost: you ${points(found[own])}, ${others}${verdict}`);
  }

  size();
  new ResizeObserver(() => document.body.style.setProperty("--dock", `${dock.offsetHeight}px`)).observe(dock);
  return {
    /** @param {any} frame any frame of the episode */
    take(frame) {
      if (over) return;
      if (frame.type === "episode.ended") {
        over = true;
        dock.remove();
        if (question && (question.votes || judged === question.turn || called.has(question.turn))) void tellLast(question.turn);
        return;
      }
      if (frame.frame === "vote") return hear(frame);
      if (frame.frame !== "crowd") return;
      if (recallSeat() === episodeId) return dock.remove(); // who plays does not call along
      if (frame.question) show(frame.question);
      else if (frame.result) showResult(frame.result);
      else if (frame.turn === question?.turn) countVotes(frame.votes);
      if (question && !dock.isConnected) document.getElementById("player")?.before(dock);
    },
  };
}

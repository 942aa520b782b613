// @ts-check
// The strip that other pages show: an episode in a few words, refreshed while it is live and in view.

const AGAIN_MS = 4_000;
const AFTER_A_FAULT_MS = 20_000;
const WORDS = /** @type {Record<string, string>} */ ({ live: "Live", paused: "Paused", ended: "Ended" });

const { root, episode } = document.body.dataset;
const at = new URL(`${root}api/episodes/${encodeURIComponent(String(episode))}/glance`, location.href);
const place = (/** @type {string} */ id) => /** @type {HTMLElement} */ (document.getElementById(id));

const course = /** @type {SVGElement} */ (document.querySelector("[data-course]"));
const known = (course.dataset.course ?? "").split(" ").filter(Boolean).map(Number);

/** Draw the chances so far, with the newest. @param {number} chance */
function draw(chance) {
  if (Math.round(100 * chance) === known.at(-1)) return;
  known.push(Math.round(100 * chance));
  if (known.length > 1) course.setAttribute("points", known.map((one, place) => `${(100 * place / (known.length - 1)).toFixed(1)},${100 - one}`).join(" "));
}

/** @param {any} glance */
function show(glance) {
  document.body.dataset.status = String(glance.status);
  place("status").textContent = WORDS[glance.status] ?? "";
  for (const id of ["title", "at", "headline", "line"]) place(id).textContent = String(glance[id] ?? "");
  const chance = /** @type {HTMLMeterElement} */ (place("chance"));
  const { sides = [], chance: share } = glance;
  document.querySelectorAll(".team").forEach((team, place) => { team.textContent = String(sides[place] ?? ""); });
  document.querySelectorAll(".share").forEach((of, place) => { of.textContent = typeof share === "number" ? `${place ? 100 - Math.round(100 * share) : Math.round(100 * share)} %` : ""; });
  chance.hidden = typeof glance.chance !== "number";
  if (chance.hidden) return;
  chance.value = 100 * glance.chance;
  draw(glance.chance);
}

async function ask() {
  let wait = AGAIN_MS;
  if (!document.hidden) {
    try {
      const answer = await fetch(at);
      if (answer.status === 404) return;
      if (!answer.ok) throw new Error(String(answer.status));
      show(await answer.json());
    } catch {
      wait = AFTER_A_FAULT_MS; // the server is away: what is shown stays
    }
  }
  if (document.body.dataset.status !== "ended") setTimeout(ask, wait);
}

if (document.body.dataset.status !== "ended") setTimeout(ask, AGAIN_MS);

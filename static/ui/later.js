// @ts-check
// Fetches the sound and what an episode is made of when they are first asked for, and the seat when a person plays: few viewers need any.

/** Rest before what could not be fetched is fetched again, in milliseconds. */
const AGAIN_MS = 2_000;

/** @typedef {ReturnType<typeof import("./sound.js").mountSound>} Sound */
/** @typedef {ReturnType<typeof import("./seat.js").mountSeat>} Seat */

/**
 * @param {HTMLElement} button @param {HTMLElement} caption @param {Parameters<typeof import("./sound.js").mountSound>[2]} page
 * @returns {Sound}
 */
export function soundWhenUsed(button, caption, page) {
  /** @type {Sound | null} */ let sound = null;
  let fetching = false;
  const types = ["click", "toggle-sound"];
  const use = async (/** @type {Event} */ event) => {
    if (fetching) return;
    fetching = true;
    try {
      const { mountSound } = await import("./sound.js");
      types.forEach((type) => button.removeEventListener(type, use));
      sound = mountSound(button, caption, page);
      button.dispatchEvent(new Event(event.type));
    } catch (error) {
      fetching = false; // the next use tries again
      console.warn("the sound could not be fetched", error);
    }
  };
  types.forEach((type) => button.addEventListener(type, use));
  return { moved(seq, jumped) { sound?.moved(seq, jumped); } };
}

/** @param {HTMLElement} button @param {string} root @param {string} episodeId @returns {ReturnType<typeof import("./about.js").mountAbout>} */
export function aboutWhenAsked(button, root, episodeId) {
  /** @type {ReturnType<typeof import("./about.js").mountAbout> | null} */ let about = null;
  /** @type {[any, number]} */ let newest = [{}, 0];
  let fetching = false;
  const use = async () => {
    if (fetching) return;
    fetching = true;
    try {
      const { mountAbout } = await import("./about.js");
      button.removeEventListener("click", use);
      about = mountAbout(/** @type {HTMLButtonElement} */ (button), root, episodeId);
      about.update(...newest);
      button.click();
    } catch (error) {
      fetching = false; // the next use tries again
      console.warn("what it is made of could not be fetched", error);
    }
  };
  button.addEventListener("click", use);
  return {
    update(state, headSeq) {
      newest = [state, headSeq];
      about?.update(state, headSeq);
    },
  };
}

/** @param {HTMLElement} place @param {string} root @param {string} episodeId @param {() => void} changed @returns {Seat} */
export function seatWhenPlayed(place, root, episodeId, changed) {
  /** @type {Seat | null} */ let seat = null;
  let fetching = false;
  async function fetchSeat() {
    fetching = true;
    try {
      const { mountSeat } = await import("./seat.js");
      seat = mountSeat(place, root, episodeId, changed);
      changed();
    } catch (error) {
      console.warn("the seat could not be fetched", error);
      setTimeout(() => { fetching = false; changed(); }, AGAIN_MS);
    }
  }
  return {
    asked: () => seat?.asked() ?? false,
    update(state, names) {
      if (seat) seat.update(state, names);
      else if (!fetching && Object.values(state.episode?.seats ?? {}).some((one) => one.source === "human")) void fetchSeat();
    },
  };
}

// @ts-check
// When the parts of a panel are drawn: what is in view at once, the rest when there is time.

/** Milliseconds of drawing in one go, after which the page answers first. */
const SLICE_MS = 12;
/** Parts this near the window count as in view. */
const NEAR = "25% 0px";

/**
 * @typedef {object} Part
 * @property {Element} element
 * @property {(world: any, moves: boolean) => void} update
 */

/** What it needs from the browser; tests bring their own. */
export const browserPorts = {
  now: () => performance.now(),
  later: (/** @type {() => void} */ action) => setTimeout(action, 0),
  /** @param {Element[]} elements @param {(element: Element, seen: boolean) => void} tell @returns {() => void} what ends it */
  watch(elements, tell) {
    const observer = new IntersectionObserver((entries) => entries.forEach((entry) => tell(entry.target, entry.isIntersecting)), { rootMargin: NEAR });
    elements.forEach((element) => observer.observe(element));
    return () => observer.disconnect();
  },
};

/**
 * Draw parts in slices: those in view first, each always with the newest that is known. The first drawing is whole, so that
 * nothing moves when the rest comes.
 * @param {Part[]} parts in the order in which the eye goes over them
 * @param {(error: unknown) => void} fail what happens when one throws
 * @param {typeof browserPorts} [ports]
 */
export function drawParts(parts, fail, ports = browserPorts) {
  /** @type {Set<Element>} */ const unseen = new Set();
  /** @type {Set<Part>} */ const due = new Set();
  /** @type {{world: any, moves: boolean}} */ let newest = { world: {}, moves: false };
  let begun = false;
  let waiting = false;
  let ended = false;

  const stop = ports.watch(parts.map((part) => part.element), (element, seen) => {
    if (seen) unseen.delete(element);
    else unseen.add(element);
  });

  /** @param {boolean} resting whether hidden parts may be drawn too @param {number} [budget] milliseconds */
  function slice(resting, budget = SLICE_MS) {
    if (ended) return;
    const until = ports.now() + budget;
    try {
      for (const part of order()) {
        if (unseen.has(part.element) && !resting) break;
        due.delete(part);
        part.update(newest.world, newest.moves && !unseen.has(part.element));
        if (ports.now() >= until) break;
      }
    } catch (error) {
      return fail(error);
    }
    if (due.size && !waiting) {
      waiting = true;
      ports.later(() => { waiting = false; slice(true); });
    }
  }

  /** Those in view before the others; among them who waited longest first. */
  const order = () => [...due].sort((a, b) => Number(unseen.has(a.element)) - Number(unseen.has(b.element)));

  return {
    /** @param {any} world @param {boolean} moves whether what just happened may be shown as motion */
    update(world, moves) {
      newest = { world, moves };
      for (const part of parts) due.add(part);
      if (begun) return slice(false);
      begun = true;
      slice(true, Infinity);
    },
    destroy() {
      ended = true;
      stop();
    },
  };
}

// @ts-check
// The making of elements: text is always text, and a node is only touched when something changed.

/** @typedef {Node | string | number | null | undefined | false} Child */
/** @typedef {Record<string, any>} Props `on` holds listeners, `data` data attributes, everything else is an attribute */

const SVG = "http://www.w3.org/2000/svg";

/** @param {string} tag @param {Props} [props] @param {...(Child | Child[])} children @returns {any} */
export function h(tag, props = {}, ...children) {
  return fill(document.createElement(tag), props, children);
}

/** @param {string} tag @param {Props} [props] @param {...(Child | Child[])} children @returns {any} */
export function svg(tag, props = {}, ...children) {
  return fill(document.createElementNS(SVG, tag), props, children);
}

/** @param {Element} element @param {Props} props @param {(Child | Child[])[]} children */
function fill(element, props, children) {
  for (const [name, value] of Object.entries(props)) {
    if (name === "on") for (const [type, listen] of Object.entries(value)) element.addEventListener(type, listen);
    else if (name === "data") for (const [key, text] of Object.entries(value)) setAttribute(element, `data-${key}`, text);
    else setAttribute(element, name, value);
  }
  element.append(...nodes(children));
  return element;
}

/** @param {(Child | Child[])[]} children @returns {(Node | string)[]} */
function nodes(children) {
  return children.flat().filter((child) => child !== null && child !== undefined && child !== false)
    .map((child) => (child instanceof Node ? child : String(child)));
}

/** Set, or remove with `null`, `undefined` and `false`. @param {Element} element @param {string} name @param {unknown} value */
export function setAttribute(element, name, value) {
  if (/^(on|style$|srcdoc$)/i.test(name)) throw new Error(`${name} is not set as an attribute here`);
  if (value === null || value === undefined || value === false) element.removeAttribute(name);
  else if (element.getAttribute(name) !== String(value)) element.setAttribute(name, value === true ? "" : String(value));
}

/** @param {Element} element @param {unknown} text */
export function setText(element, text) {
  const wanted = text === null || text === undefined ? "" : String(text);
  if (element.textContent !== wanted) element.textContent = wanted;
}

/** @param {Element} element @param {...(Child | Child[])} children */
export function replace(element, ...children) {
  element.replaceChildren(...nodes(children));
}

/**
 * Make `parent` hold one element per item, in order, keeping those it has.
 * @template T
 * @param {Element} parent @param {T[]} items @param {(item: T) => string} keyOf
 * @param {(item: T) => Element} create @param {(element: any, item: T) => void} [update]
 */
export function keyed(parent, items, keyOf, create, update) {
  /** @type {Map<string, Element>} */
  const known = new Map();
  for (const child of parent.children) known.set(/** @type {HTMLElement} */ (child).dataset.key ?? "", child);
  let place = parent.firstElementChild;
  for (const item of items) {
    const key = keyOf(item);
    let element = known.get(key);
    known.delete(key);
    if (!element) {
      element = create(item);
      element.setAttribute("data-key", key);
    } else if (update) update(element, item);
    if (element === place) place = place.nextElementSibling;
    else parent.insertBefore(element, place);
  }
  for (const element of known.values()) element.remove();
}

/** @param {string} id @returns {any} */
export function byId(id) {
  const element = document.getElementById(id);
  if (!element) throw new Error(`the page has no #${id}`);
  return element;
}

/** Absolute address of the lobby, with the page's prefix. */
export const pageRoot = () => new URL(document.documentElement.dataset.root ?? "./", location.href).href;

// @ts-check
// The application of JSON merge patches (RFC 7396), the twin of spectator/json_values.py.

/** @param {unknown} value @returns {value is Record<string, unknown>} */
const isObject = (value) => typeof value === "object" && value !== null && !Array.isArray(value);

/**
 * Return `target` with `patch` applied; neither is changed, untouched parts are shared.
 * @param {unknown} target
 * @param {unknown} patch
 * @returns {any}
 */
export function applyPatch(target, patch) {
  if (!isObject(patch)) return patch;
  const result = isObject(target) ? { ...target } : {};
  for (const key of Object.keys(patch)) {
    const value = patch[key];
    if (value === null) delete result[key];
    else put(result, key, applyPatch(Object.hasOwn(result, key) ? result[key] : undefined, value));
  }
  return result;
}

/**
 * Assignment would call the setter of `__proto__`, which a stranger's JSON may hold as a plain member.
 * @param {Record<string, unknown>} object @param {string} key @param {unknown} value
 */
function put(object, key, value) {
  if (key !== "__proto__") object[key] = value;
  else Object.defineProperty(object, key, { value, enumerable: true, configurable: true, writable: true });
}

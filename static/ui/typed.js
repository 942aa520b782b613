// @ts-check
// What a key press means on any keyboard layout.

/** Characters that the pages listen to, by the place of their key, for layouts that have others there. */
const PLACES = /** @type {Record<string, string>} */ ({
  BracketLeft: "[", BracketRight: "]", Comma: ",", Period: ".", Minus: "-", Equal: "=",
});
const ASCII = /^[\x20-\x7e]$/;
const SIGN = /^[!-/:-@[-`{-~]$/;
/** Signs that the pages listen to; the row of figures holds others on a French keyboard. */
const HEARD = /^[[\],.+=?-]$/;

/**
 * The character that was typed, in lower case, or the name of the key; empty for a browser's or system's shortcut.
 *
 * A sign may need AltGr, which Windows reports as Ctrl with Alt, or Option. A letter of another script counts
 * as the Latin letter of its key.
 *
 * @param {KeyboardEvent} event
 */
export function typed(event) {
  const { key, code = "", ctrlKey, metaKey, altKey, shiftKey } = event;
  const isSign = SIGN.test(key) && !metaKey && (ctrlKey ? event.getModifierState("AltGraph") : altKey);
  if ((ctrlKey || metaKey || altKey) && !isSign) return "";
  if (key.length > 1) return key;
  if (ASCII.test(key)) return key.toLowerCase();
  if (/^Key[A-Z]$/.test(code)) return code.slice(3).toLowerCase();
  return shiftKey ? "" : PLACES[code] ?? "";
}

/** The figure that was typed, 1 to 9, without Shift where a layout needs it; 0 for any other key. @param {KeyboardEvent} event */
export function figure(event) {
  const key = typed(event);
  if (/^[1-9]$/.test(key)) return Number(key);
  const place = /^(?:Digit|Numpad)([1-9])$/.exec(event.code ?? "");
  const plain = !event.shiftKey && !event.ctrlKey && !event.altKey && !event.metaKey;
  return place && plain && event.key.length === 1 && !HEARD.test(event.key) ? Number(place[1]) : 0;
}

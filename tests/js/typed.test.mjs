import assert from "node:assert/strict";
import test from "node:test";

import { figure, typed } from "../../static/ui/typed.js";

/** A key press, as browsers report it. */
const press = (key, code, held = {}) => ({
  key, code, ctrlKey: false, altKey: false, metaKey: false, shiftKey: false, ...held,
  getModifierState(name) { return name === "AltGraph" && held.graph === true; },
});
const ALTGR_WINDOWS = { ctrlKey: true, altKey: true, graph: true };
const ALTGR_LINUX = { graph: true };
const OPTION = { altKey: true };

test("signs that need AltGr or Option are heard", () => {
  for (const held of [ALTGR_WINDOWS, ALTGR_LINUX, OPTION]) {
    assert.equal(typed(press("[", "Digit8", held)), "[");
    assert.equal(typed(press("]", "Digit9", held)), "]");
  }
});

test("shortcuts of the browser and the system are not ours", () => {
  for (const [key, code, held] of [
    ["l", "KeyL", { ctrlKey: true }], ["l", "KeyL", { metaKey: true }], ["d", "KeyD", { altKey: true }],
    ["+", "Equal", { ctrlKey: true }], ["-", "Minus", { metaKey: true }], ["[", "BracketLeft", { metaKey: true }],
    ["[", "BracketLeft", { ctrlKey: true, altKey: true }], ["ArrowLeft", "ArrowLeft", { altKey: true }],
    ["€", "KeyE", ALTGR_WINDOWS], ["1", "Digit1", { altKey: true }], [" ", "Space", { altKey: true }],
  ]) assert.equal(typed(press(key, code, held)), "", `${key} ${JSON.stringify(held)}`);
});

test("letters of other scripts are those of their keys", () => {
  for (const [key, code, expected] of [
    ["д", "KeyL", "l"], ["Д", "KeyL", "l"], ["λ", "KeyL", "l"], ["ш", "KeyI", "i"], ["х", "BracketLeft", "["],
    ["ъ", "BracketRight", "]"], ["б", "Comma", ","], ["ю", "Period", "."], ["م", "KeyL", "l"], ["ü", "BracketLeft", "["],
  ]) assert.equal(typed(press(key, code)), expected, key);
});

test("a Latin layout has its own letters, wherever they are", () => {
  assert.equal(typed(press("a", "KeyQ")), "a"); // AZERTY
  assert.equal(typed(press("L", "KeyP", { shiftKey: true })), "l"); // Dvorak
  assert.equal(typed(press("?", "Minus", { shiftKey: true })), "?"); // German
  assert.equal(typed(press("ArrowLeft", "ArrowLeft")), "ArrowLeft");
  assert.equal(typed(press("Dead", "BracketLeft")), "Dead");
});

test("figures are picked without Shift on a French keyboard, and signs stay signs", () => {
  for (const [key, n] of [["&", 1], ["é", 2], ['"', 3], ["'", 4], ["(", 5], ["è", 7], ["_", 8], ["ç", 9]])
    assert.equal(figure(press(key, `Digit${n}`)), n, key);
  assert.equal(figure(press("6", "Digit6", { shiftKey: true })), 6);
  assert.equal(figure(press("-", "Digit6")), 0);
  assert.equal(figure(press("!", "Digit1", { shiftKey: true })), 0);
  assert.equal(figure(press("5", "Numpad5")), 5);
  assert.equal(figure(press("١", "Digit1")), 1); // Arabic
  assert.equal(figure(press("1", "Digit1", { ctrlKey: true })), 0);
  assert.equal(figure(press("ArrowLeft", "Numpad4")), 0);
});

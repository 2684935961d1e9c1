"use strict";
// Elements are made with text nodes only: no fact is ever read as HTML.

const SVG = "http://www.w3.org/2000/svg";

function add(node, attributes, children) {
  for (const [name, value] of Object.entries(attributes || {})) {
    if (name.startsWith("on")) node.addEventListener(name.slice(2), value);
    else if (value !== null && value !== undefined && value !== false) node.setAttribute(name, value === true ? "" : value);
  }
  for (const child of children.flat(Infinity)) {
    if (child !== null && child !== undefined && child !== "") node.append(child);
  }
  return node;
}

function el(name, attributes, ...children) {
  return add(document.createElement(name), attributes, children);
}

// Safari's keyboard scrolls only what can have the focus. Boxes that show all they have are no stop on its way.
function letKeyboardScroll() {
  for (const box of document.querySelectorAll("pre, .story, .command code, .scroll, .since ul")) {
    if (box.scrollHeight > box.clientHeight || box.scrollWidth > box.clientWidth) box.tabIndex = 0;
    else box.removeAttribute("tabindex");
  }
}

function svg(name, attributes, ...children) {
  return add(document.createElementNS(SVG, name), attributes, children);
}

// Figures are written as the terminal writes them (reports/numbers.py).
function rate(value) {
  if (value === null) return "-";
  if (value < 0.99995) return value.toLocaleString("en-US", { maximumSignificantDigits: 4 });
  const digits = value >= 999.95 ? 0 : value >= 99.995 ? 1 : 2;
  return value.toLocaleString("en-US", { minimumFractionDigits: digits, maximumFractionDigits: digits });
}

// A figure beside the throughput, in its own unit.
function inUnit(value, unit) {
  return `${value.toLocaleString("en-US", { maximumSignificantDigits: 4 })} ${unit}`.trim();
}

function change(fraction) {
  if (fraction === null) return "-";
  const text = Math.abs(fraction * 100).toFixed(1);
  return (fraction < 0 && Number(text) ? "-" : "+") + text + " %";
}

function percent(fraction) {
  if (fraction === null) return "-";
  const text = Math.abs(fraction * 100).toFixed(1);
  return (fraction < 0.1 ? text.replace(".0", "") : text) + " %";
}

const MONTHS = ["Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec"];

// A session's day in its own zone: 02:15 in Berlin is not the day before.
function day(time, withYear = false) {
  const [year, month, date] = String(time).slice(0, 10).split("-").map(Number);
  if (!date) return String(time);
  return date + " " + MONTHS[month - 1] + (withYear ? " " + year : "");
}

function seconds(time) {
  const parsed = Date.parse(time);
  return Number.isNaN(parsed) ? 0 : parsed / 1000;
}

function plural(count, word) {
  return count + " " + word + (count === 1 ? "" : "s");
}

// One tooltip for the whole page; `text` may have several lines.
const tip = {
  node: null,
  show(text, x, y) {
    this.node = this.node || document.getElementById("tip");
    this.node.textContent = text;
    this.node.hidden = false;
    const box = this.node.getBoundingClientRect();
    const left = Math.min(Math.max(8, x - box.width / 2), document.documentElement.clientWidth - box.width - 8);
    const top = y - box.height - 12 < 4 ? y + 18 : y - box.height - 12;
    this.node.style.transform = `translate(${Math.round(left)}px, ${Math.round(top)}px)`;
  },
  hide() {
    if (this.node) this.node.hidden = true;
  },
};

function withTip(node, text) {
  node.setAttribute("data-tip", "");
  node.addEventListener("pointermove", (event) => tip.show(text(), event.clientX, event.clientY));
  node.addEventListener("pointerleave", () => tip.hide());
  return node;
}

function colour(name) {
  return getComputedStyle(document.documentElement).getPropertyValue("--" + name).trim();
}

"use strict";
// The table of tests: sorted, filtered, and opened row by row.

const ORDER = ["REGRESSED", "INVALID", "refused", "INCONCLUSIVE", "TOO_NOISY", "NO_BASELINE", "IMPROVED", "PASS", "undecided", "measured"];
const WORDS = { REGRESSED: "regressed", INVALID: "invalid", refused: "refused", INCONCLUSIVE: "inconclusive", TOO_NOISY: "too noisy", NO_BASELINE: "no baseline", IMPROVED: "improved", PASS: "passed", undecided: "undecided", measured: "measured" };

const textOrder = (a, b) => a.localeCompare(b, "en", { numeric: true });

const COLUMNS = [
  { name: "outcome", title: "outcome", compare: (a, b) => a.index - b.index },
  { name: "test", title: "workload, topology", compare: (a, b) => textOrder(a.name + a.topology + a.test, b.name + b.topology + b.test) },
  { name: "rate", number: true, compare: (a, b) => (b.rate ?? -1) - (a.rate ?? -1) },
  { name: "change", title: "change", compare: (a, b) => (a.change ?? Infinity) - (b.change ?? Infinity) || a.index - b.index },
  { name: "since", title: "since", compare: (a, b) => textOrder(b.since ? b.since.time : "", a.since ? a.since.time : "") },
  { name: "detectable", title: "detectable", number: true, hint: "The smallest slowdown that this test detects with 95 % power", compare: (a, b) => (b.detectable ?? -1) - (a.detectable ?? -1) },
  { name: "history", title: "last 30 sessions", compare: (a, b) => b.recent.sessions - a.recent.sessions },
];

class TestTable {
  constructor(facts) {
    this.facts = facts;
    this.sort = { column: COLUMNS[0], reversed: false };
    this.chosen = new Set();
    this.words = [];
    this.open = new Map();
    this.rows = new Map();
    this.body = document.querySelector("#table tbody");
    this.span = barSpan(facts.tests);
    const units = new Set(facts.tests.map((test) => test.unit + "/s"));
    this.rateTitle = units.size === 1 ? [...units][0] : "rate"; // as in the terminal's table
    this.showsMachine = new Set(facts.tests.map((test) => test.machine)).size > 1;
    for (const test of facts.tests) {
      test.text = [test.name, test.test, test.workload, test.machine, test.topology, test.outcome].join(" ").toLowerCase();
    }
    this.makeHead();
    this.makeFilters();
    this.update();
  }

  makeHead() {
    const head = el("tr", {}, COLUMNS.map((column) => {
      const button = el("button", { type: "button", title: column.hint || false }, column.name === "rate" ? this.rateTitle : column.title);
      button.addEventListener("click", () => {
        this.sort = { column, reversed: this.sort.column === column && !this.sort.reversed };
        this.update();
      });
      return el("th", { scope: "col", "data-column": column.name, class: column.number ? "number" : false }, button);
    }));
    document.querySelector("#table thead").append(head);
  }

  makeFilters() {
    const box = document.getElementById("outcomes");
    for (const word of ORDER.filter((one) => this.facts.counts[one])) {
      const button = el("button", { type: "button", class: "filter " + word, "aria-pressed": "false", "data-outcome": word }, el("b", {}, String(this.facts.counts[word])), " " + WORDS[word]);
      button.addEventListener("click", () => {
        this.chosen.has(word) ? this.chosen.delete(word) : this.chosen.add(word);
        button.setAttribute("aria-pressed", String(this.chosen.has(word)));
        this.update();
      });
      box.append(button);
    }
    document.getElementById("search").addEventListener("input", (event) => {
      this.words = event.target.value.toLowerCase().split(/\s+/).filter(Boolean);
      this.update();
    });
  }

  shows(test) {
    // Pressed filters choose; none pressed chooses all.
    return (!this.chosen.size || this.chosen.has(test.outcome)) && this.words.every((word) => test.text.includes(word));
  }

  update() {
    const { column, reversed } = this.sort;
    const shown = this.facts.tests.filter((test) => this.shows(test)).sort(column.compare);
    if (reversed) shown.reverse();
    for (const head of document.querySelectorAll("#table th[data-column]")) {
      const sorted = head.dataset.column === column.name;
      head.setAttribute("aria-sort", sorted ? (reversed ? "descending" : "ascending") : "none");
    }
    this.body.replaceChildren(...shown.flatMap((test) => {
      const row = this.row(test);
      const opened = this.open.get(test.index);
      return opened ? [row, opened.row] : [row];
    }));
    document.getElementById("nothing").hidden = shown.length > 0 || !this.facts.tests.length;
  }

  row(test) {
    if (!this.rows.has(test.index)) this.rows.set(test.index, this.makeRow(test));
    return this.rows.get(test.index);
  }

  makeRow(test) {
    const toggle = el("button", { type: "button", class: "name", "aria-expanded": "false" },
      el("span", { class: "title" }, test.name), " ", el("span", { class: "on" }, test.topology));
    const row = el("tr", { id: "test-" + test.index, class: "test " + test.outcome },
      el("td", { class: "outcome" }, el("span", { class: "pill " + test.outcome + " " + test.kind }, WORDS[test.outcome] || test.outcome), test.kind ? el("span", { class: "kind" }, test.kind) : null),
      el("td", { class: "name" }, toggle, el("span", { class: "id", title: test.test }, this.showsMachine ? test.machine + " · " : "", test.test.replace(/^[^:[]*\//, ""))),
      el("td", { class: "number rate" + (this.rateTitle === "rate" ? "" : " of-heading") }, rate(test.rate), " ", el("span", { class: "unit" }, test.unit + "/s")),
      el("td", { class: "change" }, withTip(el("span", { class: "measure" }, el("span", { class: "figure" }, change(test.change)), changeBar(test, this.span)), () => (test.change === null ? test.story : changeText(test)))),
      el("td", { class: "since" }, test.since ? [day(test.since.time), " ", el("span", { class: "quiet" }, test.since.sessions === 1 ? "new" : plural(test.since.sessions, "session"))] : ""),
      el("td", { class: "number detectable" }, percent(test.detectable)),
      el("td", { class: "history" }, withTip(el("span", {}, sparkline(test)), () => sparkText(test))));
    row.addEventListener("click", (event) => {
      if (!String(getSelection())) this.toggle(test.index);
    });
    return row;
  }

  toggle(index) {
    const test = this.facts.tests[index];
    const row = this.row(test);
    const opened = this.open.get(index);
    if (opened) {
      opened.close();
      opened.row.remove();
      this.open.delete(index);
    } else {
      const box = el("div", { class: "details" });
      const details = el("tr", { class: "opened" }, el("td", { colspan: COLUMNS.length }, box));
      if (!row.isConnected) this.clear();
      row.after(details);
      const entry = { row: details, close() {} };
      this.open.set(index, entry);
      withDetails(test, this.facts, box, () => {
        if (this.open.get(index) === entry) entry.close = openTest(box, test, this.facts);
      });
    }
    row.classList.toggle("is-open", !opened);
    row.querySelector("button.name").setAttribute("aria-expanded", String(!opened));
  }

  clear() {
    this.chosen.clear();
    this.words = [];
    document.getElementById("search").value = "";
    for (const button of document.querySelectorAll(".filter")) button.setAttribute("aria-pressed", "false");
    this.update();
  }
}

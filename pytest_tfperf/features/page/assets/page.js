"use strict";
// Puts the page together.

function readTheme() {
  try {
    return localStorage.getItem("tfperf-theme");
  } catch {
    return null; // a file's page may have no storage
  }
}

function setTheme(theme, keep = false) {
  document.documentElement.dataset.theme = theme;
  const next = theme === "dark" ? "light" : "dark";
  document.getElementById("theme").setAttribute("aria-label", "Switch to " + next);
  if (keep) {
    try {
      localStorage.setItem("tfperf-theme", theme);
    } catch {
      // then the next page asks the system again
    }
  }
  for (const one of charts) one.draw();
}

// Paper has its own width and is white, so all plots are drawn for it, and for the screen again afterwards.
function drawForPaper() {
  const root = document.documentElement;
  let theme = "light";
  addEventListener("beforeprint", () => {
    theme = root.dataset.theme;
    root.classList.add("on-paper");
    setTheme("light");
  });
  addEventListener("afterprint", () => {
    root.classList.remove("on-paper");
    setTheme(theme);
  });
}

function drawScaling(facts) {
  for (const group of facts.scaling) {
    const documents = group.documents.map((one) => one.machine).join(", ");
    const points = [...group.points].sort((a, b) => a.devices - b.devices);
    const head = el("tr", {}, el("th", {}, "topology"), [group.unit + "/s", "of linear"].map((text) => el("th", { class: "number" }, text)));
    const lines = points.map((p) => el("tr", {}, el("td", {}, p.topology), [rate(p.rate), Math.round(p.efficiency * 100) + " %"].map((text) => el("td", { class: "number" }, text))));
    const target = el("div", { class: "plot" });
    const note = documents ? `${group.machine} (bold), documents: ${documents}` : group.machine;
    document.getElementById("curves").append(panel(group.name, note, target, el("table", { class: "plain" }, head, lines)));
    scalingChart(target, group);
  }
}

function documentTable(rows) {
  const number = (text) => el("td", { class: "number" }, text);
  const head = el("tr", {}, ["workload", "topology", "their machine"].map((text) => el("th", {}, text)),
    ["published", "here", "ratio"].map((text) => el("th", { class: "number" }, text)));
  const lines = rows.map((row) => el("tr", { class: row.here === null ? "missing" : false },
    el("td", { class: "break", title: row.note }, row.workload), el("td", {}, row.topology), el("td", { class: "break" }, row.machine),
    number(rate(row.rate)), number(rate(row.here)), number(row.ratio === null ? "not measured" : row.ratio.toFixed(2) + " ×")));
  return el("div", { class: "scroll" }, el("table", { class: "plain" }, head, lines));
}

// Filled when it is first opened: a document may have hundreds of rows.
function folded(attributes, summary, fill) {
  const box = el("details", attributes, el("summary", {}, summary));
  const opened = () => box.open && box.children.length === 1 && box.append(...fill());
  box.addEventListener("toggle", opened);
  opened();
  return box;
}

function drawDocuments(facts, box) {
  for (const name of new Set(facts.documents.map((row) => row.document))) {
    const rows = facts.documents.filter((row) => row.document === name);
    const known = rows.filter((row) => row.here !== null);
    const missing = rows.filter((row) => row.here === null);
    const summary = [name, " ", el("span", { class: "quiet" }, `${plural(rows.length, "figure")}, ${known.length} measured here`)];
    box.append(folded({ open: known.length < 12 }, summary, () => {
      if (!missing.length) return [documentTable(rows)];
      const rest = `${plural(missing.length, "figure")} not measured here`;
      return [documentTable(known), folded({ class: "rest" }, rest, () => [documentTable(missing)])];
    }));
  }
}

function start() {
  const facts = JSON.parse(document.getElementById("facts").textContent);
  if (facts.columns) facts.tests = rowsOf(facts.columns);
  facts.tests.forEach((test, index) => (test.index = index));
  setTheme(readTheme() || (matchMedia("(prefers-color-scheme: dark)").matches ? "dark" : "light"));
  document.getElementById("theme").addEventListener("click", () => setTheme(document.documentElement.dataset.theme === "dark" ? "light" : "dark", true));
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", (event) => readTheme() || setTheme(event.matches ? "dark" : "light"));

  const table = new TestTable(facts);
  document.getElementById("legend").hidden = facts.tests.every((test) => test.change === null);
  for (const link of document.querySelectorAll("[data-opens]")) {
    link.addEventListener("click", (event) => {
      event.preventDefault();
      const index = Number(link.dataset.opens);
      if (!table.shows(facts.tests[index])) table.clear();
      if (!table.open.has(index)) table.toggle(index);
      table.row(facts.tests[index]).scrollIntoView({ block: "start" });
    });
  }
  if (facts.scaling.length) drawScaling(facts);
  const published = document.getElementById("published");
  if (published) drawDocuments(facts, published);

  drawForPaper();
  let width = innerWidth;
  addEventListener("resize", () => {
    if (innerWidth === width) return;
    width = innerWidth;
    for (const one of charts) one.draw();
    letKeyboardScroll();
  });
  document.addEventListener("toggle", letKeyboardScroll, true);
  letKeyboardScroll();
  document.documentElement.dataset.ready = "yes";
}

start();

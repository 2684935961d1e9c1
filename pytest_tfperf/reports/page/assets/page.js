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
  const box = document.getElementById("curves");
  for (const group of facts.scaling) {
    const target = el("div", { class: "plot" });
    const legend = [group.machine, ...group.documents.map((one) => one.machine)];
    const points = [...group.points].sort((a, b) => a.devices - b.devices);
    box.append(el("section", { class: "panel" }, el("h3", {}, group.name),
      el("p", { class: "note" }, legend.length > 1 ? `${legend[0]} (bold), documents: ${legend.slice(1).join(", ")}` : legend[0]), target,
      el("table", { class: "plain" }, el("tr", {}, el("th", {}, "Devices"), el("th", { class: "number" }, group.unit + "/s"), el("th", { class: "number" }, "of linear")),
        points.map((p) => el("tr", {}, el("td", {}, p.topology), el("td", { class: "number" }, rate(p.rate)), el("td", { class: "number" }, Math.round(p.efficiency * 100) + " %"))))));
    scalingChart(target, group);
  }
}

function drawDocuments(facts, box) {
  const documents = new Map();
  for (const row of facts.documents) documents.set(row.document, [...(documents.get(row.document) || []), row]);
  const unknown = [];
  for (const [name, rows] of documents) {
    const known = rows.filter((row) => row.here !== null);
    if (!known.length) {
      unknown.push(`${name} (${plural(rows.length, "figure")})`);
      continue;
    }
    const missing = rows.filter((row) => row.here === null);
    const cells = (some) => some.map((row) => el("tr", { class: row.here === null ? "missing" : false },
      el("td", { class: "break", title: row.note }, row.workload), el("td", {}, row.topology), el("td", { class: "break" }, row.machine),
      el("td", { class: "number" }, rate(row.rate)), el("td", { class: "number" }, rate(row.here)),
      el("td", { class: "number" }, row.ratio === null ? "not measured" : row.ratio.toFixed(2) + " ×")));
    const details = el("details", { open: known.length < 12 },
      el("summary", {}, name, " ", el("span", { class: "quiet" }, `${plural(rows.length, "figure")}, ${known.length} measured here`)));
    // Hundreds of rows that nobody has asked for yet.
    const fill = (target, some) => target.children.length > 1 || target.append(el("div", { class: "scroll" }, el("table", { class: "plain" },
      el("tr", {}, ["Workload", "Topology", "Their machine"].map((t) => el("th", {}, t)), ["Published", "Here", "Ratio"].map((t) => el("th", { class: "number" }, t))), cells(some))));
    const rest = el("details", { class: "rest" }, el("summary", {}, `${plural(missing.length, "figure")} not measured here`));
    rest.addEventListener("toggle", () => rest.open && fill(rest, missing));
    details.addEventListener("toggle", () => details.open && fill(details, known));
    if (details.open) fill(details, known);
    if (missing.length) details.addEventListener("toggle", () => details.append(rest));
    if (details.open && missing.length) details.append(rest);
    box.append(details);
  }
  if (unknown.length) box.append(el("p", { class: "quiet" }, `No figure of ${unknown.join(", or ")} was measured here.`));
}

function start() {
  const facts = JSON.parse(document.getElementById("facts").textContent);
  facts.tests.forEach((test, index) => (test.index = index));
  setTheme(readTheme() || (matchMedia("(prefers-color-scheme: dark)").matches ? "dark" : "light"));
  document.getElementById("theme").addEventListener("click", () => setTheme(document.documentElement.dataset.theme === "dark" ? "light" : "dark", true));
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", (event) => readTheme() || setTheme(event.matches ? "dark" : "light"));

  const table = new TestTable(facts);
  if (facts.tests.some((test) => test.change !== null)) {
    document.getElementById("legend").textContent = "Change: the dot is the measured change, its line the 95 % interval, the shaded band what is accepted, the red mark where the test fails.";
  }
  for (const link of document.querySelectorAll("[data-opens]")) {
    link.addEventListener("click", (event) => {
      event.preventDefault();
      const index = Number(link.dataset.opens);
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
  });
  document.documentElement.dataset.ready = "yes";
}

start();

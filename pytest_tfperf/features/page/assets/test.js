"use strict";
// What a row of the table opens: everything about one test, drawn when it is opened and dropped when it is closed.

function panel(title, note, ...children) {
  return el("section", { class: "panel" }, el("h3", {}, title), note ? el("p", { class: "note" }, note) : null, ...children);
}

function commandLine(one) {
  const button = el("button", { type: "button", class: "copy" }, "Copy");
  button.addEventListener("click", async () => {
    const copied = await copy(one.command);
    button.textContent = copied ? "Copied" : "Select and copy";
    setTimeout(() => (button.textContent = "Copy"), 1500);
  });
  return el("div", { class: "command" }, el("span", { class: "label" }, one.label), el("code", {}, one.command), button);
}

// A page opened from a file has no clipboard in some browsers; the older way works there.
async function copy(text) {
  try {
    await navigator.clipboard.writeText(text);
    return true;
  } catch {
    const area = el("textarea", { readonly: true, class: "offscreen" });
    area.value = text;
    document.body.append(area);
    area.select();
    const done = document.execCommand("copy");
    area.remove();
    return done;
  }
}

function openTest(box, test, facts) {
  const drops = [];
  const plot = (parent, draw) => {
    const target = el("div", { class: "plot" });
    parent.append(target);
    // The box has its width only once it is on the page.
    queueMicrotask(() => drops.push(draw(target)));
  };

  box.append(el("p", { class: "story " + test.outcome }, test.story,
    el("span", { class: "quiet" }, ` · ${test.devices} · ${plural(test.runs.filter((r) => r.kind === "run").length, "run")}, ${Math.round(test.seconds)} s${test.owner ? ` · ${test.owner}` : ""}`)));

  const past = panel("History", historyNote(test));
  if (test.history.rate.some((value) => value !== null)) plot(past, (target) => historyChart(target, ratePlot(test), facts));
  box.append(past);

  const columns = el("div", { class: "columns" });
  const runs = panel("Runs of this session", test.runs.length > 1 ? "Each dot is a fresh worker, with the 95 % interval of its own windows." : "One fresh worker, with the 95 % interval of its windows.");
  plot(runs, (target) => chart(target, (inner, width) => {
    inner.append(runsPlot(test, width));
    return { destroy() {} };
  }));
  columns.append(runs, breakdownPanel(test));
  box.append(columns);

  const drawn = test.runs.filter((run) => run.rates.length);
  if (drawn.length) {
    const shown = { ...test, runs: drawn };
    const starts = runStarts(drawn);
    const total = starts.at(-1) + runEnd(drawn.at(-1));
    const sync = "runs-" + test.index;
    const time = panel("Over time", "Windows of each run, and below the machine at the same moments. Warm-up is shaded and not counted.");
    plot(time, (target) => windowsChart(target, shown, starts, total, sync));
    const known = new Set(drawn.flatMap((run) => (run.telemetry ? run.telemetry.series.map((one) => one.what) : [])));
    for (const what of Object.keys(TELEMETRY)) {
      if (!known.has(what)) continue;
      const devices = devicesWith(shown, what);
      time.append(el("h4", {}, TELEMETRY[what][0], devices.length > 1 ? devices.map((device, d) => [" ", el("span", { class: "device", style: `--hue:${deviceHue(d, devices.length)}` }, device)]) : null));
      plot(time, (target) => telemetryChart(target, what, shown, starts, total, sync));
    }
    box.append(time);
  }

  if (test.figures.length) {
    const names = ["outcome", "figure", "value", "baseline", "change", "fails from"];
    const cells = (row) => el("tr", { class: row.outcome }, names.map((name) => el("td", {}, row[name] ?? "-")));
    const heading = el("tr", {}, names.map((name) => el("th", {}, name)));
    const figures = panel("Figures beside the throughput", "", el("div", { class: "scroll" }, el("table", { class: "plain" }, [heading, ...test.figures.map(cells)])));
    for (const row of test.figures.filter((row) => row.plot)) {
      figures.append(el("h4", {}, row.figure));
      plot(figures, (target) => historyChart(target, figurePlot(row), facts));
    }
    box.append(figures);
  }

  const message = panel("Message", "", el("pre", {}, test.message));
  if (test.environment_changes.length) {
    message.prepend(el("h3", {}, "Environment since the baseline"), el("ul", { class: "changes" }, test.environment_changes.map((line) => el("li", {}, line))));
  }
  message.append(...test.commands.map(commandLine));
  box.append(message);
  letKeyboardScroll();
  return () => drops.forEach((drop) => drop());
}

function historyNote(test) {
  const parts = [];
  if (test.baseline !== null) parts.push(`The line is the ${test.kind === "provisional" ? "level of earlier sessions" : test.kind || "baseline"}, the band what is accepted${test.threshold === null ? "" : ", the dashed red line today's threshold"}.`);
  if (test.since && test.since.before !== null) parts.push(`Before ${day(test.since.time)}: ${rate(test.since.before)} ${test.unit}/s; now ${rate(test.rate)}.`);
  return parts.join(" ");
}

function breakdownPanel(test) {
  const found = test.breakdown;
  const box = panel("Where a step's time goes", "");
  if (!found) {
    box.append(el("p", { class: "note" }, "This test's worker was not asked for a breakdown."));
    return box;
  }
  const bars = [
    ["Arithmetic: share of the matmul rate", found.products_fraction],
    ["Input: share of what the pipeline alone gives", found.pipeline_rate && test.rate ? test.rate / found.pipeline_rate : null],
    ["Communication: share of a step", found.exchange_fraction],
  ];
  for (const [words, fraction] of bars) {
    if (fraction === null) continue;
    box.append(el("div", { class: "share" }, el("span", {}, words), el("b", {}, Math.round(fraction * 100) + " %"),
      el("div", { class: "track" }, el("div", { class: "fill", style: `width:${Math.min(100, fraction * 100).toFixed(1)}%` }))));
  }
  box.append(el("dl", { class: "lines" }, found.lines.map(([name, text]) => [el("dt", {}, name), el("dd", {}, text)])));
  return box;
}

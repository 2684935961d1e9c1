"use strict";
// The drawings in a row of the table, and the dot plot of runs: small inline SVG, coloured by classes.

const BAR = { width: 168, height: 26 };

// The largest change that the bars show: the same in all rows, so that lengths compare.
function barSpan(tests) {
  const ends = tests.flatMap((t) => [t.change_low, t.change_high, t.threshold, t.tolerance_high]).filter((v) => v !== null);
  return Math.min(0.3, Math.max(0.04, ...ends.map(Math.abs)) * 1.08);
}

function changeBar(test, span) {
  const { width, height } = BAR;
  const x = (fraction) => width / 2 + (Math.max(-span, Math.min(span, fraction)) / span) * (width / 2 - 4);
  const middle = height / 2;
  const drawing = svg("svg", { class: "bar " + test.outcome, width, height, viewBox: `0 0 ${width} ${height}`, "aria-hidden": "true" });
  if (test.change === null) return drawing;
  const low = x(test.tolerance_low ?? -span);
  const high = x(test.tolerance_high ?? span);
  drawing.append(svg("rect", { class: "accepted", x: low, y: 3, width: high - low, height: height - 6, rx: 3 }));
  drawing.append(svg("line", { class: "zero", x1: x(0), x2: x(0), y1: 3, y2: height - 3 }));
  if (test.threshold !== null) {
    drawing.append(svg("line", { class: "threshold", x1: x(-test.threshold), x2: x(-test.threshold), y1: 1, y2: height - 1 }));
  }
  const from = x(test.change_low ?? test.change);
  const to = x(test.change_high ?? test.change);
  drawing.append(svg("line", { class: "interval", x1: from, x2: Math.max(to, from + 1), y1: middle, y2: middle }));
  drawing.append(svg("circle", { class: "dot", cx: x(test.change), cy: middle, r: 4.5 }));
  return drawing;
}

// The throughput below which the test fails or warns; null where there is none.
function threshold(test) {
  return test.expected === null || test.threshold === null ? null : test.expected * (1 - test.threshold);
}

function changeText(test) {
  const lines = [`${change(test.change)} against what is expected today (${rate(test.expected)} ${test.unit}/s)`];
  if (test.change_low !== null) lines.push(`95 % CI ${change(test.change_low)} to ${change(test.change_high)}`);
  if (test.threshold !== null) {
    const verb = test.kind === "provisional" ? "warns" : "fails";
    lines.push(`${verb} from ${change(-test.threshold)}; accepted from ${change(test.tolerance_low)} to ${change(test.tolerance_high)}`);
  }
  if (test.drift) lines.push(`${change(test.drift)} is common to all tests of this session and not counted`);
  return lines.join("\n");
}

// The latest sessions of a test (render.py chooses them).
function sparkline(test) {
  const width = 132, height = 28, pad = 4;
  const { rate: rates, marks } = test.recent;
  const drawing = svg("svg", { class: "spark " + test.outcome, width, height, viewBox: `0 0 ${width} ${height}`, "aria-hidden": "true" });
  const known = rates.filter((value) => value !== null);
  if (!known.length) return drawing;
  const baseline = test.baseline || known[0];
  // At least 4 % from top to bottom, so that noise looks like noise.
  const low = Math.min(...known, baseline * 0.98), high = Math.max(...known, baseline * 1.02);
  const x = (i) => pad + (rates.length < 2 ? 0.5 : i / (rates.length - 1)) * (width - 2 * pad);
  const y = (value) => pad + ((high - value) / (high - low || 1)) * (height - 2 * pad);
  if (test.baseline) drawing.append(svg("line", { class: "zero", x1: 0, x2: width, y1: y(baseline), y2: y(baseline) }));
  let path = "";
  rates.forEach((value, i) => {
    if (value === null) return;
    path += `${path && rates[i - 1] !== null ? "L" : "M"}${x(i).toFixed(1)} ${y(value).toFixed(1)}`;
  });
  drawing.append(svg("path", { d: path }));
  for (const [i, word] of marks) {
    if (rates[i] !== null) drawing.append(svg("circle", { class: "dot " + word, cx: x(i), cy: y(rates[i]), r: i === rates.length - 1 ? 3 : 1.8 }));
  }
  return drawing;
}

function sparkText(test) {
  const { rate: rates, first, last } = test.recent;
  const known = rates.filter((value) => value !== null);
  if (!known.length) return "no throughput is known";
  return `${plural(rates.length, "session")}, ${day(first, true)} to ${day(last, true)}\n` +
    `lowest ${rate(Math.min(...known))}, highest ${rate(Math.max(...known))} ${test.unit}/s`;
}

const RUN_WORDS = { run: "fresh run", now: "pair: now", reference: "pair: reference environment", discarded: "discarded" };

// Each run's throughput with its interval, one under the other, on the scale of the expected throughput.
function runsPlot(test, width) {
  const row = 26, left = 8, right = 72, top = 6;
  const runs = test.runs.filter((run) => run.rate !== null);
  const height = top + runs.length * row + 36;
  const drawing = svg("svg", { class: "runs", width, height, viewBox: `0 0 ${width} ${height}`, role: "img", "aria-label": "Throughput of each run" });
  const fails = threshold(test);
  const all = [...runs.flatMap((run) => [run.rate, run.low, run.high]), test.expected, fails].filter((v) => v !== null);
  if (!all.length) return drawing;
  let low = Math.min(...all), high = Math.max(...all);
  const margin = (high - low || high * 0.01) * 0.12;
  low -= margin;
  high += margin;
  const x = (value) => left + ((value - low) / (high - low)) * (width - left - right);
  const bottom = height - 34;
  const mark = (value, kind, text, y) => {
    drawing.append(svg("line", { class: kind, x1: x(value), x2: x(value), y1: 0, y2: bottom }));
    const anchor = x(value) > width * 0.75 ? "end" : x(value) < width * 0.25 ? "start" : "middle";
    drawing.append(svg("text", { class: kind, x: x(value), y, "text-anchor": anchor }, text));
  };
  if (test.expected !== null) mark(test.expected, "zero", `expected ${rate(test.expected)}`, height - 6);
  if (fails !== null) mark(fails, "threshold", `${test.kind === "provisional" ? "warns" : "fails"} below ${rate(fails)}`, height - 20);
  runs.forEach((run, i) => {
    const y = top + i * row + row / 2;
    const group = svg("g", { class: run.kind },
      svg("rect", { class: "hit", x: 0, y: y - row / 2, width, height: row }),
      svg("line", { class: "interval", x1: x(run.low ?? run.rate), x2: x(run.high ?? run.rate), y1: y, y2: y }),
      svg("circle", { class: "dot", cx: x(run.rate), cy: y, r: 5 }),
      svg("text", { class: "figure", x: width, y: y + 4, "text-anchor": "end" }, rate(run.rate)));
    withTip(group, () => `${RUN_WORDS[run.kind]} ${i + 1}: ${rate(run.rate)} ${test.unit}/s` + (run.disturbance ? `\n${run.disturbance}` : ""));
    drawing.append(group);
  });
  return drawing;
}

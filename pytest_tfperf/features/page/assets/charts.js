"use strict";
// The curves, drawn by uPlot: a test's history, its runs over time with the telemetry below, and scaling.

const charts = new Set(); // those on the page, to be drawn again when the theme or the width changes

function chart(box, make) {
  const entry = {
    draw() {
      if (entry.plot && !box.isConnected) return; // a filter hides its test, so it has no width
      if (entry.plot) entry.plot.destroy();
      box.textContent = "";
      entry.plot = make(box, Math.max(240, Math.floor(box.clientWidth)));
    },
  };
  charts.add(entry);
  entry.draw();
  return () => {
    charts.delete(entry);
    if (entry.plot) entry.plot.destroy();
  };
}

function axis(more) {
  const grid = { stroke: colour("hairline"), width: 1 };
  return { stroke: colour("quiet"), grid, ticks: { ...grid, size: 4 }, font: "11px system-ui, sans-serif", gap: 4, ...more };
}

// Draws in the plot's own coordinates, below the series.
function painter(paint) {
  return (u) => {
    const { ctx, bbox } = u;
    ctx.save();
    ctx.beginPath();
    ctx.rect(bbox.left, bbox.top, bbox.width, bbox.height);
    ctx.clip();
    paint(u, ctx, bbox, devicePixelRatio || 1);
    ctx.restore();
  };
}

function line(ctx, fromX, fromY, toX, toY) {
  ctx.beginPath();
  ctx.moveTo(fromX, fromY);
  ctx.lineTo(toX, toY);
  ctx.stroke();
}

function tipOf(text) {
  return (u) => {
    const { idx, left, top } = u.cursor;
    if (idx === null || idx === undefined || left < 0) return tip.hide();
    const words = text(u, idx);
    const box = u.over.getBoundingClientRect();
    // Charts that only follow another one's cursor stay silent.
    if (words && u.over.matches(":hover")) tip.show(words, box.left + left, box.top + top);
  };
}

function options(width, height, more) {
  return { width, height, legend: { show: false }, padding: [10, 10, 0, 0], ...more,
    cursor: { y: false, drag: { x: true, y: false }, points: { size: 7 }, ...more.cursor } };
}

// What the plot of a throughput shows over sessions; one of a figure has the same fields.
function ratePlot(test) {
  const accepted = (tolerance) => (test.baseline === null || tolerance === null ? null : test.baseline * (1 + tolerance));
  const fails = threshold(test);
  return { ...test, height: 260, axisSize: 58, accepted_low: accepted(test.tolerance_low), accepted_high: accepted(test.tolerance_high),
    fails: fails === null ? [] : [fails], write: (value) => `${rate(value)} ${test.unit}/s`, writeAxis: rate };
}

function figurePlot(row) {
  const plot = row.plot;
  const write = (value) => inUnit(value, plot.unit);
  return { ...plot, since: null, height: 170, axisSize: 82, write, writeAxis: write };
}

// The accepted band, the baseline and the thresholds, and a mark at each change.
function paintExpected(test) {
  return painter((u, ctx, area, ratio) => {
    const y = (value) => u.valToPos(value, "y", true);
    const right = area.left + area.width, bottom = area.top + area.height;
    if (test.accepted_low !== null || test.accepted_high !== null) {
      const top = test.accepted_high === null ? area.top : y(test.accepted_high);
      ctx.fillStyle = colour("accepted");
      ctx.fillRect(area.left, top, area.width, (test.accepted_low === null ? bottom : y(test.accepted_low)) - top);
    }
    ctx.lineWidth = ratio;
    if (test.baseline !== null) {
      ctx.strokeStyle = colour("quiet");
      line(ctx, area.left, y(test.baseline), right, y(test.baseline));
    }
    for (const limit of test.fails) {
      ctx.strokeStyle = colour("bad");
      ctx.setLineDash([5 * ratio, 4 * ratio]);
      line(ctx, area.left, y(limit), right, y(limit));
    }
    ctx.setLineDash([3 * ratio, 3 * ratio]);
    ctx.strokeStyle = ctx.fillStyle = colour("ink");
    ctx.font = `${11 * ratio}px system-ui, sans-serif`;
    for (const point of test.changes.length ? test.changes : test.since ? [test.since] : []) {
      const x = u.valToPos(seconds(point.time), "x", true) - 6 * ratio;
      line(ctx, x, area.top, x, bottom);
      const onTheRight = x > area.left + area.width * 0.7;
      const words = point.size === undefined ? `since ${day(point.time)}` : `${day(point.time)}: ${change(point.size)}`;
      ctx.textAlign = onTheRight ? "right" : "left";
      ctx.fillText(words, x + (onTheRight ? -5 : 5) * ratio, bottom - 6 * ratio);
    }
  });
}

const MOST_INTERVALS = 200; // of a longer history only the dots are shown

function paintResults(past, times) {
  return (u) => {
    const { ctx } = u;
    const ratio = devicePixelRatio || 1;
    const y = (value) => u.valToPos(value, "y", true);
    ctx.save();
    ctx.lineWidth = ratio;
    past.rate.forEach((value, i) => {
      if (value === null || times[i] < u.scales.x.min || times[i] > u.scales.x.max) return;
      const x = u.valToPos(times[i], "x", true);
      ctx.strokeStyle = ctx.fillStyle = colour(outcomeColour(past.outcome[i]));
      if (past.low[i] !== null && past.high[i] !== null && times.length < MOST_INTERVALS) line(ctx, x, y(past.low[i]), x, y(past.high[i]));
      ctx.beginPath();
      ctx.arc(x, y(value), (times.length > 120 ? 2 : 3.2) * ratio, 0, 2 * Math.PI);
      ctx.fill();
    });
    ctx.restore();
  };
}

// The range that shows the results, their intervals, the baseline and the threshold.
function rangeOfHistory(test, times) {
  const past = test.history;
  return (u, low, high) => {
    const { min, max } = u.scales.x;
    const isShown = (i) => (min ?? null) === null || (times[i] >= min && times[i] <= max);
    const intervals = times.length < MOST_INTERVALS ? [past.low, past.high].flatMap((ends) => ends.filter((value, i) => isShown(i))) : [];
    const baseline = test.baseline === null ? [] : [test.baseline * 0.99, test.baseline * 1.01];
    const ends = [low, high, ...intervals, ...baseline, ...test.fails].filter((value) => value !== null);
    const least = Math.min(...ends), most = Math.max(...ends), margin = (most - least || Math.abs(most) * 0.02 || 1) * 0.08;
    return [least - margin, most + margin];
  };
}

function historyChart(box, test, facts) {
  const past = test.history;
  const times = past.session.map((index) => seconds(facts.sessions[index].time));
  const words = (u, i) => {
    const session = facts.sessions[past.session[i]];
    const interval = past.low[i] === null ? "" : ` (95 % CI ${test.writeAxis(past.low[i])} to ${test.writeAxis(past.high[i])})`;
    const commit = session.commit ? `\ncommit ${session.commit.slice(0, 12)}` : "";
    return `${day(session.time, true)} · ${past.outcome[i] || "not judged"}\n${test.write(past.rate[i])}${interval}\nsession ${session.id}${commit}`;
  };
  const writeTimes = (u, splits, index, space, step) => splits.map((s, i) => (step < DAY ? clock(s) : label(s, i, splits)));
  return chart(box, (target, width) =>
    new uPlot(options(width, test.height, {
      tzDate: (time) => uPlot.tzDate(new Date(time * 1000), "UTC"),
      scales: { y: { range: rangeOfHistory(test, times) }, x: { range: (u, a, b) => rangeOfTime(times, a, b) } },
      axes: [axis({ values: writeTimes, space: 70, size: 30 }), axis({ size: test.axisSize, values: (u, splits) => splits.map(test.writeAxis) })],
      series: [{}, { stroke: colour("line"), width: 1.5, points: { show: false } }],
      hooks: { drawAxes: [paintExpected(test)], draw: [paintResults(past, times)], setCursor: [tipOf(words)] },
    }), [times, past.rate], target));
}

const DAY = 86400;

// One session alone lies in the middle of its day; uPlot would show years around it.
function rangeOfTime(times, least, most) {
  if (times[0] === times.at(-1)) return [times[0] - DAY / 2, times[0] + DAY / 2];
  const margin = (most - least) * 0.02;
  return [least - margin, most + margin];
}

function clock(time) {
  const date = new Date(time * 1000).toISOString();
  return date.slice(11, 16) === "00:00" ? day(date) : date.slice(11, 16);
}

// "17 Nov", with the year where it is another one than before.
function label(time, index, all) {
  const date = new Date(time * 1000).toISOString();
  const before = index ? new Date(all[index - 1] * 1000).toISOString().slice(0, 4) : date.slice(0, 4);
  return day(date, date.slice(0, 4) !== before);
}

function outcomeColour(word) {
  if (word.startsWith("REGRESSED") || word.startsWith("INVALID")) return "bad";
  if (word.startsWith("INCONCLUSIVE") || word.startsWith("TOO_NOISY")) return "doubt";
  return word.startsWith("IMPROVED") ? "good" : "line";
}

// When the last window or the last poll of a run ended, in seconds after its start.
function runEnd(run) {
  const polls = run.telemetry ? run.telemetry.end_seconds : [];
  const lastPoll = polls.length ? run.telemetry.start_seconds + polls.at(-1) : 0;
  return Math.max(run.end_seconds.at(-1) ?? 0, lastPoll);
}

// The runs of a session one after the other on one axis of seconds; returns where each starts.
function runStarts(runs) {
  const gap = Math.max(...runs.map(runEnd), 1) * 0.06;
  let at = 0;
  return runs.map((run) => {
    const start = at;
    at += runEnd(run) + gap;
    return start;
  });
}

function shadeWarmup(runs, starts) {
  return painter((u, ctx, area, ratio) => {
    runs.forEach((run, i) => {
      const x = (time) => u.valToPos(time, "x", true);
      const warm = run.warmup ? run.end_seconds[run.warmup - 1] : 0;
      ctx.fillStyle = colour("warmup");
      ctx.fillRect(x(starts[i]), area.top, x(starts[i] + warm) - x(starts[i]), area.height);
      if (u.series.length !== 2 || u.height < 150) return;
      ctx.fillStyle = colour("quiet");
      ctx.textAlign = "left";
      ctx.font = `${11 * ratio}px system-ui, sans-serif`;
      const text = run.kind === "run" ? `run ${i + 1}` : run.kind;
      const room = x(starts[i] + runEnd(run)) - x(starts[i]);
      if (room > ctx.measureText(text).width) ctx.fillText(text, x(starts[i]) + 4 * ratio, area.top + 12 * ratio);
    });
  });
}

function windowsChart(box, test, starts, total, sync) {
  const runs = test.runs;
  const times = [], rates = [], of = [];
  runs.forEach((run, i) => {
    run.end_seconds.forEach((end, j) => {
      times.push(starts[i] + (end + (j ? run.end_seconds[j - 1] : 0)) / 2);
      rates.push(run.rates[j]);
      of.push([i, j]);
    });
    times.push(starts[i] + runEnd(run) + 1e-6);
    rates.push(null);
    of.push(null);
  });
  return chart(box, (target, width) =>
    new uPlot(options(width, 210, {
      cursor: { sync: { key: sync } },
      scales: { x: { time: false, range: () => [0, total] } },
      axes: [axis({ size: 28, values: (u, splits) => splits.map((s) => s + " s") }), axis({ size: AXIS, values: (u, splits) => splits.map(rate) })],
      series: [{}, { stroke: colour("line"), width: 1.2, points: { show: true, size: 4, fill: colour("line") } }],
      hooks: {
        drawAxes: [shadeWarmup(runs, starts)],
        setCursor: [tipOf((u, i) => {
          if (!of[i]) return "";
          const [run, index] = of[i];
          const warm = index < runs[run].warmup;
          return `${RUN_WORDS[runs[run].kind]} ${run + 1}, ${warm ? "warm-up, not counted" : `window ${index - runs[run].warmup + 1}`}\n${rate(rates[i])} ${test.unit}/s`;
        })],
      },
    }), [times, rates], target));
}

const AXIS = 76; // of all plots of one panel: their seconds lie one above the other

const TELEMETRY = {
  celsius: ["Temperature", (v) => v + " °C"],
  sm_mhz: ["GPU clock", (v) => rate(v).replace(/\.\d+$/, "") + " MHz"],
  watts: ["Power", (v) => Math.round(v) + " W"],
  utilisation: ["GPU use", (v) => Math.round(v * 100) + " %"],
  load: ["Load of the host", (v) => v.toFixed(1)],
  cpu_mhz: ["CPU clock", (v) => (v / 1000).toFixed(2) + " GHz"],
  other_cpu: ["CPU of other processes", (v) => (v * 100).toFixed(1) + " %"],
  steal: ["Steal time", (v) => (v * 100).toFixed(1) + " %"],
};

function devicesWith(test, what) {
  return [...new Set(test.runs.flatMap((run) => (run.telemetry ? run.telemetry.series : []).filter((s) => s.what === what).map((s) => s.device)))];
}

// Neighbours differ little: GPUs in a row look like a family, and one that leaves it is seen by its place.
function deviceHue(index, count) {
  return 205 + (count > 1 ? (150 * index) / (count - 1) : 0);
}

// The least and the largest value shown, once where they read alike: a plot this low has no room for a scale.
function extremes(u, write) {
  const known = u.series.slice(1).filter((one) => Number.isFinite(one.min) && Number.isFinite(one.max));
  if (!known.length) return [];
  const ends = [Math.min(...known.map((one) => one.min)), Math.max(...known.map((one) => one.max))];
  return write(ends[0]) === write(ends[1]) ? ends.slice(1) : ends;
}

function telemetryChart(box, what, test, starts, total, sync) {
  const write = TELEMETRY[what][1];
  const devices = devicesWith(test, what);
  const times = [], values = devices.map(() => []);
  test.runs.forEach((run, i) => {
    if (!run.telemetry) return;
    const { start_seconds: offset, end_seconds: ends, series } = run.telemetry;
    ends.forEach((end, j) => {
      times.push(starts[i] + offset + end);
      devices.forEach((device, d) => {
        const found = series.find((one) => one.what === what && one.device === device);
        values[d].push(found ? found.values[j] : null);
      });
    });
    times.push(times.at(-1) + 1e-6);
    values.forEach((column) => column.push(null));
  });
  const stroke = (d) => `hsl(${deviceHue(d, devices.length)} 46% ${colour("device-lightness")})`;
  return chart(box, (target, width) =>
    new uPlot(options(width, 92, {
      padding: [8, 10, 8, 0],
      cursor: { sync: { key: sync } },
      scales: { x: { time: false, range: () => [0, total] }, y: { range: (u, a, b) => { const m = Math.max((b - a) * 0.15, Math.abs(b) * 0.01, 0.01); return [Math.max(0, a - m), b + m]; } } },
      axes: [axis({ show: false }), axis({ size: AXIS, splits: (u) => extremes(u, write), values: (u, splits) => splits.map(write) })],
      series: [{}, ...devices.map((device, d) => ({ label: device, stroke: stroke(d), width: 1.3, points: { show: times.length < 40, size: 4, fill: stroke(d) } }))],
      hooks: {
        drawAxes: [shadeWarmup(test.runs, starts)],
        setCursor: [tipOf((u, i) => {
          const known = devices.map((device, d) => [device, values[d][i]]).filter((pair) => pair[1] !== null && pair[1] !== undefined);
          return known.length ? [TELEMETRY[what][0], ...known.map(([device, v]) => `${device}: ${write(v)}`)].join("\n") : "";
        })],
      },
    }), [times, ...values], target));
}

function scalingChart(box, group) {
  const curves = [{ name: group.machine, points: group.points }, ...group.documents.map((one) => ({ name: one.machine, points: one.points }))];
  const devices = [...new Set(curves.flatMap((curve) => curve.points.map((point) => point.devices)))].sort((a, b) => a - b);
  const at = curves.map((curve) => devices.map((count) => curve.points.find((point) => point.devices === count) || null));
  const stroke = (i) => (i === 0 ? colour("accent") : `hsl(${(32 + 70 * i) % 360} 42% 55%)`);
  return chart(box, (target, width) =>
    new uPlot(options(width, 220, {
      scales: { x: { time: false, distr: 3, log: 2, range: [devices[0] * 0.9, devices.at(-1) * 1.1] }, y: { range: (u, a, b) => [Math.max(0, Math.min(0.7, a - 0.05)), Math.max(1.05, b + 0.02)] } },
      axes: [axis({ size: 30, splits: () => devices, values: (u, splits) => splits.map((n) => (devices.includes(n) ? String(n) : "")) }), axis({ size: 46, values: (u, splits) => splits.map((v) => Math.round(v * 100) + " %") })],
      series: [{}, ...curves.map((curve, i) => ({ stroke: stroke(i), width: i ? 1.3 : 2.4, spanGaps: true, points: { show: true, size: i ? 5 : 8, fill: stroke(i) } }))],
      hooks: {
        drawAxes: [painter((u, ctx, area, ratio) => {
          ctx.strokeStyle = colour("quiet");
          ctx.setLineDash([5 * ratio, 4 * ratio]);
          line(ctx, area.left, u.valToPos(1, "y", true), area.left + area.width, u.valToPos(1, "y", true));
        })],
        setCursor: [tipOf((u, i) => {
          const known = curves.map((curve, c) => [curve.name, at[c][i]]).filter((pair) => pair[1]);
          return [plural(devices[i], "device"), ...known.map(([name, p]) => `${name} ${p.topology}: ${rate(p.rate)} ${group.unit}/s, ${Math.round(p.efficiency * 100)} %`)].join("\n");
        })],
      },
    }), [devices, ...at.map((points) => points.map((point) => (point ? point.efficiency : null)))], target));
}

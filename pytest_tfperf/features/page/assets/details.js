"use strict";
// A site's index has the facts of the table's rows. What an opened row shows besides is in files of their own.

function rowsOf(columns) {
  const names = Object.keys(columns);
  return columns.test.map((_, i) => Object.fromEntries(names.map((name) => [name, columns[name][i]])));
}

const arrivals = new Map(); // what to do with the facts of a file that was asked for, by its name

// Each file calls this function: a page that was opened from file:// can run a script, but can't read JSON.
function tfperf(name, facts) {
  arrivals.get(name)(facts);
}

function load(name) {
  return new Promise((arrived, failed) => {
    arrivals.set(name, arrived);
    document.head.append(el("script", { src: `tfperf/${name}.js`, onerror: failed }));
  });
}

// Calls `then` once all facts of the test are known: at once in a page that has them all.
function withDetails(test, facts, box, then) {
  if (!test.file) return then();
  const note = el("p", { class: "note", role: "status" }, "Loading …");
  box.append(note);
  facts.loading ||= load(facts.sessions_file).then((sessions) => (facts.sessions = sessions));
  Promise.all([load(test.file), facts.loading]).then(([details]) => {
    Object.assign(test, details, { file: null });
    note.remove();
    then();
  }, () => {
    facts.loading = null;
    note.textContent = `tfperf/${test.file}.js or tfperf/${facts.sessions_file}.js can't be loaded. They belong to the folder of this page: keep it whole, and reload the page if it was written again.`;
  });
}

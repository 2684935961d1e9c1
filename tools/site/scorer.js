// Sphinx gives a word in any heading of a page the same score as one in its title, and our developers' pages, which name
// everything, the same as users' pages. Here a title counts more, and developers' pages come last.
Scorer.score = ([page, title, , , score, , kind]) => {
  const stemmer = new Stemmer();
  const stems = (text) => splitQuery(text.toLowerCase()).map((word) => stemmer.stemWord(word));
  const searched = stems(new URLSearchParams(window.location.search).get("q"));
  const titles = kind === "object" ? [] : stems(title.split(" > ")[0]);
  const found = searched.filter((stem) => titles.includes(stem)).length / searched.length;
  const forUsers = page === "README" || (page.startsWith("docs/") && page !== "docs/architecture");
  return score + 20 * found - (forUsers ? 0 : 1000);
};

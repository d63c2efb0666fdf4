// Keeps the page up to date; without it the page is whole and stands still.
"use strict";

const job = document.querySelector("main[data-job]");
if (job && job.dataset.open === "true") {
  const id = job.dataset.job;
  const events = new EventSource(`/api/runs/${id}/events`);
  let rungs = null;
  events.addEventListener("run", async (event) => {
    const run = JSON.parse(event.data);
    const live = await fetch(`/jobs/${id}/live`);
    if (live.ok) {
      // Whoever holds the stop button by keyboard keeps it.
      const held = document.activeElement && document.activeElement.tagName === "BUTTON";
      document.getElementById("live").innerHTML = await live.text();
      const button = document.querySelector("#live button");
      if (held && button) button.focus();
    }
    const ended = ["Completed", "Failed", "Stopped"].includes(run.status);
    if (ended) events.close();
    const charts = document.getElementById("charts");
    if (run.levels.length > 0 && (run.levels.length !== rungs || ended)) {
      if (rungs !== null || charts.hidden || ended) {
        charts.hidden = false;
        charts.querySelector("iframe").src = `/api/runs/${id}/report`;
      }
    }
    rungs = run.levels.length;
  });
}

const jobs = document.getElementById("jobs");
if (jobs) {
  setInterval(async () => {
    if (!jobs.querySelector("tr[data-open=true]")) return;
    const answer = await fetch("/api/runs");
    if (!answer.ok) return;
    for (const run of (await answer.json()).runs) {
      const row = jobs.querySelector(`tr[data-id="${run.id}"]`);
      if (!row) return location.reload();
      const put = (name, text) => { row.querySelector(`[data-is=${name}]`).textContent = text; };
      put("status", run.queued ? "Queued" : run.status);
      put("rungs", run.levels.length);
      for (const name of ["best", "limit", "instances"]) put(name, run.numbers ? run.numbers[name] : "");
      row.dataset.open = String(!["Completed", "Failed", "Stopped"].includes(run.status));
    }
  }, 2000);
}

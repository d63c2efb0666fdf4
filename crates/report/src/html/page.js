"use strict";
// Draws the figures in the reader's palette, and again when it changes or the page is printed.
(() => {
  const root = document.documentElement;
  const figures = JSON.parse(document.getElementById("figures").textContent);
  const narrow = window.matchMedia("screen and (max-width: 760px)");
  const dark = window.matchMedia("(prefers-color-scheme: dark)");
  const mouse = window.matchMedia("(pointer: fine)");

  // "@blue" stands for the palette's blue.
  function inPalette(value, style) {
    if (typeof value === "string" && value.startsWith("@")) {
      return style.getPropertyValue("--" + value.slice(1)).trim();
    }
    if (Array.isArray(value)) return value.map((each) => inPalette(each, style));
    if (value && typeof value === "object") {
      return Object.fromEntries(Object.entries(value).map(([key, each]) => [key, inPalette(each, style)]));
    }
    return value;
  }

  function draw(place, figure) {
    const { data, layout } = inPalette(figure, getComputedStyle(root));
    // The legend stands at the foot of the place, however low that is, and clear of the axis title.
    Object.assign(layout.legend, { yref: "container", y: 0, yanchor: "bottom" });
    // A finger scrolls the page; a mouse may zoom, and a double click undoes it.
    layout.dragmode = mouse.matches ? "zoom" : false;
    if (narrow.matches) {
      layout.margin = { ...layout.margin, l: 46, r: 10 };
      layout.font.size = 11;
    }
    const config = { responsive: true, displaylogo: false, displayModeBar: false };
    return Plotly.react(place, data, layout, config);
  }

  function chosenTimeline() {
    const chosen = document.querySelector("input[name=rung]:checked");
    return chosen ? chosen.value : null;
  }

  function drawTimeline() {
    const order = chosenTimeline();
    const place = document.getElementById("timeline");
    if (!place || order === null) return;
    const course = figures.timelines[order];
    place.setAttribute("aria-label", course.summary);
    document.getElementById("timeline-summary").textContent = course.summary;
    draw(place, course.figure);
  }

  function drawAll() {
    for (const [id, figure] of Object.entries(figures.charts)) {
      draw(document.getElementById(id), figure);
    }
    drawTimeline();
  }

  root.classList.add("scripted");
  for (const input of document.querySelectorAll("input[name=rung]")) {
    input.addEventListener("change", drawTimeline);
  }
  dark.addEventListener("change", drawAll);
  narrow.addEventListener("change", drawAll);
  window.addEventListener("beforeprint", () => {
    root.dataset.printing = "";
    drawAll();
  });
  window.addEventListener("afterprint", () => {
    delete root.dataset.printing;
    drawAll();
  });
  drawAll();
})();

// A click on a function zooms to it, above its callers. A click on the lowest bar shows everything again.
(function () {
  var frames = Array.prototype.slice.call(document.querySelectorAll("g[data-s]"));
  var width = +document.documentElement.dataset.width, samples = +document.documentElement.dataset.samples;
  frames.forEach(function (g) {
    g.start = +g.dataset.s;
    g.count = +g.dataset.n;
    g.name = g.querySelector("title").textContent.replace(/\n[^\n]*$/, "");
    g.addEventListener("click", function () { show(g); });
  });
  function show(chosen) {
    var end = chosen.start + chosen.count, scale = width / chosen.count;
    frames.forEach(function (g) {
      var from = Math.max(g.start, chosen.start), to = Math.min(g.start + g.count, end);
      var shown = to > from;
      g.style.display = shown ? "" : "none";
      if (!shown) { return; }
      g.style.opacity = g.count > chosen.count && g !== chosen ? 0.5 : 1;
      var x = (from - chosen.start) * scale, w = (to - from) * scale;
      var rect = g.querySelector("rect"), text = g.querySelector("text");
      rect.setAttribute("x", x);
      rect.setAttribute("width", Math.max(w - 0.5, 0.2));
      text.setAttribute("x", x + 3);
      var fits = Math.floor((w - 6) / 6.6);
      text.textContent = g.name.length <= fits ? g.name : fits < 3 ? "" : g.name.slice(0, fits - 2) + "..";
    });
  }
})();

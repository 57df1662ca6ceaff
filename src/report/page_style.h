// How the page looks. Curves of runs take their colours from c0 ... c7, chosen to be told apart by
// most eyes (Okabe and Ito 2008), in lighter shades on the dark page.
#pragma once

#include <string_view>

namespace fourfold::report {

inline constexpr int page_colors = 8;

inline constexpr std::string_view page_style = R"(
:root { color-scheme: light dark; --page: #f6f7f9; --card: #fff; --ink: #1c2430; --soft: #5d6878;
  --rule: #e1e5eb; --warn: #9a5b00; --warn-card: #fff6e5;
  --c0: #0072b2; --c1: #d55e00; --c2: #009e73; --c3: #b5528f; --c4: #a07800; --c5: #3b8fc4;
  --c6: #7a5cc0; --c7: #6b7280; }
@media (prefers-color-scheme: dark) { :root { --page: #11151b; --card: #1a2028; --ink: #e4e8ee;
  --soft: #98a3b3; --rule: #2c3541; --warn: #f0b95b; --warn-card: #2b2415;
  --c0: #58b0e8; --c1: #ff8f4d; --c2: #3ccfa4; --c3: #e38cc2; --c4: #e3c04b; --c5: #9cd3f5;
  --c6: #b39cf0; --c7: #a5afbd; } }
* { box-sizing: border-box; }
body { margin: 0; background: var(--page); color: var(--ink); overflow-wrap: anywhere;
  font: 15px/1.5 system-ui, -apple-system, "Segoe UI", Roboto, "DejaVu Sans", sans-serif; }
main { max-width: 1240px; margin: 0 auto; padding: 28px 20px 40px; }
h1 { font-size: 25px; line-height: 1.25; margin: 0 0 4px; letter-spacing: -0.01em; }
h2 { font-size: 17px; margin: 34px 0 12px; }
p { margin: 0 0 8px; } .soft { color: var(--soft); }
.card { background: var(--card); border: 1px solid var(--rule); border-radius: 10px;
  padding: 14px 16px; min-width: 0; }
.legend { display: flex; flex-wrap: wrap; gap: 6px 18px; margin: 12px 0 0; }
.chip { display: inline-flex; align-items: center; gap: 7px; }
.chip i { width: 18px; height: 4px; border-radius: 2px; background: currentColor; }
.chip span { color: var(--ink); }
.tiles { display: grid; grid-template-columns: repeat(auto-fit, minmax(150px, 1fr)); gap: 12px;
  margin: 20px 0 0; }
.tiles .card { padding: 12px 14px; } .tiles dt { color: var(--soft); font-size: 13px; }
.tiles dd { margin: 0; font-size: 21px; font-weight: 600; font-variant-numeric: tabular-nums; }
.tiles small { display: block; font-size: 12.5px; font-weight: 400; color: var(--soft); }
.charts { display: grid; grid-template-columns: repeat(auto-fill, minmax(min(330px, 100%), 1fr));
  gap: 14px; }
figure { margin: 0; } figure.wide { grid-column: 1 / -1; }
figcaption { font-weight: 600; margin: 0 0 6px; font-size: 14px; }
figcaption small { font-weight: 400; color: var(--soft); }
svg { display: block; width: 100%; height: auto; }
svg text { font: 11px system-ui, sans-serif; fill: var(--soft); }
svg .grid { stroke: var(--rule); stroke-width: 1; }
svg .line { fill: none; stroke: currentColor; stroke-width: 1.6; stroke-linejoin: round; }
svg .band { fill: currentColor; fill-opacity: 0.18; stroke: currentColor; stroke-opacity: 0.3;
  stroke-width: 0.7; } svg .dot { fill: currentColor; }
svg .strip { fill: transparent; } svg .strip:hover { fill: currentColor; fill-opacity: 0.08; }
svg .mark { stroke: currentColor; stroke-width: 1; stroke-dasharray: 3 3; }
svg .pointer { stroke: var(--soft); stroke-width: 1; stroke-opacity: 0.6; pointer-events: none; }
svg .chosen { fill: var(--soft); fill-opacity: 0.15; pointer-events: none; }
.charts svg { touch-action: pan-y; user-select: none; } figure { position: relative; }
[hidden] { display: none !important; }
.switches { display: flex; flex-wrap: wrap; align-items: center; gap: 8px 22px; margin: 0 0 12px;
  color: var(--soft); font-size: 13.5px; }
.switches button { font: inherit; color: var(--soft); background: var(--card); cursor: pointer;
  border: 1px solid var(--rule); border-radius: 6px; padding: 3px 11px; margin-left: 5px; }
.switches button[aria-pressed=true] { color: var(--ink); border-color: var(--soft);
  font-weight: 600; } .switches button:disabled { opacity: 0.5; cursor: default; }
.values { position: absolute; top: 40px; right: 26px; padding: 6px 10px; font-size: 12.5px;
  background: var(--card); border: 1px solid var(--rule); border-radius: 8px;
  font-variant-numeric: tabular-nums; pointer-events: none; }
.values.at-left { right: auto; left: 66px; } .values strong { color: var(--ink); }
.values i { display: inline-block; width: 12px; height: 3px; vertical-align: middle;
  margin-right: 6px; background: currentColor; }
figure.wide .dot { r: 3.6px; stroke: var(--card); stroke-width: 1; }
figure.wide svg:has(circle) g:not(:has(circle)) .line { stroke-opacity: 0.5; }
.narrow { display: none; }
.c0 { color: var(--c0); } .c1 { color: var(--c1); } .c2 { color: var(--c2); }
.c3 { color: var(--c3); } .c4 { color: var(--c4); } .c5 { color: var(--c5); }
.c6 { color: var(--c6); } .c7 { color: var(--c7); }
.scroll { overflow-x: auto; } table { border-collapse: collapse; width: 100%; font-size: 14px; }
th, td { text-align: left; padding: 6px 18px 6px 0; border-bottom: 1px solid var(--rule);
  vertical-align: top; font-variant-numeric: tabular-nums; }
th { font-weight: 600; } td:first-child { color: var(--soft); }
tr:last-child td { border-bottom: 0; } .scroll td { overflow-wrap: normal; min-width: 90px; }
tr.differs td { color: var(--ink); font-weight: 600; }
details { margin: 0 0 10px; } summary { cursor: pointer; font-weight: 600; }
summary + * { margin-top: 10px; }
pre { margin: 0; font: 13px/1.5 ui-monospace, "DejaVu Sans Mono", Menlo, Consolas, monospace;
  white-space: pre-wrap; overflow-wrap: anywhere; } pre.wide { white-space: pre; overflow-x: auto; }
pre + p { margin-top: 14px; }
.warn { border-color: var(--warn); background: var(--warn-card); margin: 18px 0 0; }
.warn li { color: var(--warn); } .warn ul { margin: 0; padding-left: 18px; }
footer { margin: 34px 0 0; color: var(--soft); font-size: 13px; }
@media (max-width: 640px) { main { padding: 20px 12px 32px; } h1 { font-size: 21px; }
  .card { padding: 12px; } .broad { display: none; } .narrow { display: block; }
  .tiles { grid-template-columns: 1fr 1fr; gap: 10px; } .tiles dd { font-size: 18px; } }
@media print { body { background: #fff; } .card { break-inside: avoid; } }
)";

}  // namespace fourfold::report

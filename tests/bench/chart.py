"""A bar chart as SVG: one bar per command, its median, with a line from the fastest run to the p99."""
from xml.sax.saxutils import escape

ROW, LABEL, WIDTH, TOP, FOOT = 26, 150, 760, 44, 42
COLOURS = {"ward": "#2f6f4f", "peer": "#8a94a6", "floor": "#c3c9d4"}


def text(x, y, what, anchor="start", size=12, weight="normal", fill="#1d2430"):
    return f'<text x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}" font-size="{size}" font-weight="{weight}" fill="{fill}">{escape(what)}</text>'


def chart(title, rows, foot):
    """@rows: (name, kind, min, p50, p99) in milliseconds, or (name, kind, None, None, reason)."""
    measured = [r for r in rows if r[3] is not None]
    top = max(r[3] for r in measured) * 1.02
    plot = WIDTH - LABEL - 110
    height = TOP + ROW * len(rows) + FOOT
    out = [f'<svg xmlns="http://www.w3.org/2000/svg" width="{WIDTH}" height="{height}" viewBox="0 0 {WIDTH} {height}" '
           'font-family="system-ui, sans-serif">', f'<rect width="{WIDTH}" height="{height}" fill="#ffffff"/>', text(12, 26, title, size=15, weight="bold")]
    for i, (name, kind, low, middle, high) in enumerate(rows):
        y = TOP + ROW * i
        out.append(text(LABEL - 8, y + 17, name, "end", weight="bold" if kind == "ward" else "normal"))
        if middle is None:
            out.append(text(LABEL, y + 17, f"refuses: {high}"[:84], size=11, fill="#9a4b4b"))
            continue
        end = LABEL + plot * middle / top
        out.append(f'<rect x="{LABEL}" y="{y + 5}" width="{end - LABEL:.1f}" height="{ROW - 10}" rx="2" fill="{COLOURS[kind]}"/>')
        left, right = (LABEL + plot * min(v, top) / top for v in (low, high))
        out.append(f'<line x1="{left:.1f}" x2="{right:.1f}" y1="{y + ROW / 2}" y2="{y + ROW / 2}" stroke="#1d2430" stroke-width="1"/>')
        out.append(text(max(end, right) + 6, y + 17, f"{middle:.2f} ms"))
    for i, line in enumerate(foot):
        out.append(text(12, height - FOOT + 18 + 15 * i, line, size=10, fill="#5a6474"))
    return "\n".join(out + ["</svg>"]) + "\n"

"""An explanation as a picture: the strategies' trees, the verdict above it, the bounds below."""

from __future__ import annotations

from dataclasses import dataclass
from html import escape
from typing import TYPE_CHECKING

from everview.strategies.diagram import Box, Diagram, DiagramNode

if TYPE_CHECKING:
    from everview.plan.explain import Explanation

CHARACTER = 7.9
SMALL = 7.0
BOX_HEIGHT = 34
LEVEL = 78
GAP = 26
PADDING = 24
LONGEST = 60
"""A node's label is cut here; the text output has it in full."""
STYLE = (
    "text{font:13px ui-monospace,Menlo,Consolas,'DejaVu Sans Mono',monospace;fill:#1f2933}"
    ".title{font-weight:700;font-size:15px}.small{font-size:11.5px;fill:#52606d}"
    ".label{text-anchor:middle}.under{fill:#fff}"
    ".input{fill:#e6f0ff;stroke:#2f6fde}.general{fill:#fff7e0;stroke:#c98a00;stroke-dasharray:5 3}"
    ".bag{fill:#fde8e8;stroke:#c53030}.hidden{opacity:.62}.link{stroke:#7b8794;fill:none}"
)

CLASSES = {Box.INPUT: "input", Box.GROUP: "general", Box.JOIN: "bag"}


@dataclass
class _Placed:
    node: DiagramNode
    label: str
    x: float
    y: float
    width: float

    @property
    def middle(self) -> float:
        return self.x + self.width / 2


def render_svg(explanation: Explanation) -> str:
    """One tree a core, side by side under its title, and the view's bounds below all of them."""
    head = [explanation.plan.view.name, _subtitle(explanation)]
    bounds = [f"{name}: {bound}" for name, bound in explanation.plan.bounds.to_dict().items()]
    bounds = [line if len(line) <= 2 * LONGEST else line[: 2 * LONGEST - 1] + "…" for line in bounds]
    bounds += _legend(explanation)
    top = PADDING + 26.0 + 20 * len(head)
    pictures: list[str] = []
    right = float(PADDING)
    bottom = top
    for block in (b for p in explanation.plan.parts for b in p.blocks):
        for core in block.cores:
            diagram = core.maintenance.diagram
            title = f"{block.label}: {core.core.role}, {diagram.caption}"
            drawn, width, height = _draw(diagram, title, right, top)
            pictures.append(drawn)
            right += width + 2 * GAP
            bottom = max(bottom, top + height)
    widest = max(max(map(len, head)) * CHARACTER, max(map(len, bounds)) * SMALL)
    width = max(right - 2 * GAP + PADDING, widest + 2 * PADDING)
    height = bottom + 20 * len(bounds) + PADDING
    lines = [
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{width:.0f}" height="{height:.0f}" '
        f'viewBox="0 0 {width:.0f} {height:.0f}" role="img" aria-label="plan of {escape(head[0], quote=True)}">',
        f"<style>{STYLE}</style>",
        f'<rect width="{width:.0f}" height="{height:.0f}" rx="8" fill="#ffffff"/>',
    ]
    lines += [_text(PADDING, PADDING + 14 + 20 * i, t, "title" if i == 0 else "") for i, t in enumerate(head)]
    lines += pictures
    lines += [_text(PADDING, bottom + 16 + 20 * i, line, "small") for i, line in enumerate(bounds)]
    return "\n".join([*lines, "</svg>"])


def _subtitle(explanation: Explanation) -> str:
    held = [name.replace("_", "-") for name, holds in explanation.classes.items() if holds]
    return f"{explanation.strategy} · {', '.join(held) or 'no class holds'}"


def _legend(explanation: Explanation) -> list[str]:
    """What the kinds of boxes mean, for those that are there."""
    nodes = [node for core in explanation.plan.cores for node in core.maintenance.diagram.root.walk()]
    kinds = {node.box for node in nodes}
    said = [box.value for box in Box if box in kinds and box.value]
    if any(not node.is_listed for node in nodes):
        said.append("faint: only has to match")
    return ["; ".join(said)] if said else []


def _draw(diagram: Diagram, title: str, left: float, top: float) -> tuple[str, float, float]:
    boxes, links, width = _placed(diagram.root, left, top + 26)
    parts = [_text(left, top + 8, title, "small")]
    parts += [_link(above, below) for above, below in links]
    parts += [_box(box) for box in boxes]
    depth = max(box.y for box in boxes)
    return "\n".join(parts), max(width, len(title) * SMALL), depth + BOX_HEIGHT + GAP - top


def _placed(node: DiagramNode, x: float, y: float) -> tuple[list[_Placed], list[tuple[_Placed, _Placed]], float]:
    """The boxes of a subtree from ``x`` on, its root first, the links between them, and how wide all of it is."""
    label = node.label if len(node.label) <= LONGEST else node.label[: LONGEST - 1] + "…"
    own = len(label) * CHARACTER + 22
    boxes: list[_Placed] = []
    links: list[tuple[_Placed, _Placed]] = []
    children: list[_Placed] = []
    cursor = x
    for child in node.children:
        below, inner, width = _placed(child, cursor, y + LEVEL)
        children.append(below[0])
        boxes += below
        links += inner
        cursor += width + GAP
    whole = max(own, cursor - x - GAP if children else 0.0)
    shift = (whole - (cursor - x - GAP)) / 2 if children else 0.0
    for box in boxes:
        box.x += shift
    middle = (children[0].middle + children[-1].middle) / 2 if children else x + own / 2
    start = min(max(middle - own / 2, x), x + whole - own)
    root = _Placed(node, label, start, y, own)
    return [root, *boxes], [(root, c) for c in children] + links, whole


def _link(above: _Placed, below: _Placed) -> str:
    key = below.node.key
    y1, y2 = above.y + BOX_HEIGHT, below.y
    bend = (y1 + y2) / 2
    path = f'<path class="link" d="M{above.middle:.1f} {y1:.1f}C{above.middle:.1f} {bend:.1f} '
    path += f'{below.middle:.1f} {bend:.1f} {below.middle:.1f} {y2:.1f}"/>'
    middle, width = (above.middle + below.middle) / 2, len(key) * SMALL + 4
    under = f'<rect class="under" x="{middle - width / 2:.1f}" y="{bend - 7:.1f}" width="{width:.1f}" height="14"/>'
    return path + under + _text(middle, bend + 4, key, "small label")


def _box(placed: _Placed) -> str:
    node = placed.node
    hidden = "" if node.is_listed else " hidden"
    radius = 17 if node.box is Box.GROUP else 6
    place = f'x="{placed.x:.1f}" y="{placed.y:.1f}" width="{placed.width:.1f}" height="{BOX_HEIGHT}"'
    rect = f'<rect class="{CLASSES[node.box]}" {place} rx="{radius}"/>'
    return f'<g class="node{hidden}">{rect}{_text(placed.middle, placed.y + 22, placed.label, "label")}</g>'


def _text(x: float, y: float, content: str, style: str = "") -> str:
    attribute = f' class="{style}"' if style else ""
    return f'<text x="{x:.1f}" y="{y:.1f}"{attribute}>{escape(content)}</text>'

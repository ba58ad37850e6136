"""An explanation as a picture: the join tree, the verdict above it, the bounds below."""

from __future__ import annotations

from dataclasses import dataclass
from html import escape
from typing import TYPE_CHECKING

from everview.plan.core_plan import CorePlan
from everview.plan.text import node_label
from everview.plan.tree import TreeNode
from everview.query.terms import names

if TYPE_CHECKING:
    from everview.plan.explain import Explanation

CHARACTER = 7.4
BOX_HEIGHT = 34
LEVEL = 78
GAP = 26
PADDING = 24
STYLE = (
    "text{font:13px ui-monospace,Menlo,Consolas,monospace;fill:#1f2933}"
    ".title{font-weight:700;font-size:15px}.small{font-size:11.5px;fill:#52606d}"
    ".input{fill:#e6f0ff;stroke:#2f6fde}.general{fill:#fff7e0;stroke:#c98a00;stroke-dasharray:5 3}"
    ".bag{fill:#fde8e8;stroke:#c53030}.hidden{opacity:.62}.link{stroke:#7b8794;fill:none}"
)


@dataclass
class _Box:
    node: TreeNode
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
    top = PADDING + 26.0 + 20 * len(head)
    pictures: list[str] = []
    right = float(PADDING)
    bottom = top
    for block in (b for p in explanation.plan.parts for b in p.blocks):
        for core in block.cores:
            title = f"{block.label}: {core.core.role}, height {core.height}"
            drawn, width, height = _draw(core, title, right, top)
            pictures.append(drawn)
            right += width + 2 * GAP
            bottom = max(bottom, top + height)
    widest = max(len(line) for line in [*head, *bounds])
    width = max(right, widest * CHARACTER + 2 * PADDING)
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


def _draw(core: CorePlan, title: str, left: float, top: float) -> tuple[str, float, float]:
    boxes: list[_Box] = []
    links: list[tuple[_Box, _Box]] = []
    cursor = left

    def place(node: TreeNode, depth: int) -> _Box:
        nonlocal cursor
        label = node_label(core, node)
        width = len(label) * CHARACTER + 22
        start = cursor
        children = [place(c, depth + 1) for c in node.children]
        if children:
            x = (children[0].middle + children[-1].middle) / 2 - width / 2
            shift = start - x
            if shift > 0:
                x = start
            cursor = max(cursor, x + width + GAP)
        else:
            x = cursor
            cursor += width + GAP
        box = _Box(node, label, x, top + 26 + depth * LEVEL, width)
        boxes.append(box)
        links.extend((box, child) for child in children)
        return box

    place(core.tree.root, 0)
    parts = [_text(left, top + 8, title, "small")]
    for above, below in links:
        parts.append(_link(above, below))
    parts += [_box(core, box) for box in boxes]
    depth = max(box.y for box in boxes)
    right = max([box.x + box.width for box in boxes] + [left + len(title) * CHARACTER])
    return "\n".join(parts), right - left, depth + BOX_HEIGHT + GAP - top


def _link(above: _Box, below: _Box) -> str:
    key = names(above.node.attributes & below.node.attributes) or "∅"
    y1, y2 = above.y + BOX_HEIGHT, below.y
    bend = (y1 + y2) / 2
    path = f'<path class="link" d="M{above.middle:.1f} {y1:.1f}C{above.middle:.1f} {bend:.1f} '
    path += f'{below.middle:.1f} {bend:.1f} {below.middle:.1f} {y2:.1f}"/>'
    return path + _text((above.middle + below.middle) / 2 + 5, bend + 4, key, "small")


def _box(core: CorePlan, box: _Box) -> str:
    node = box.node
    kind = "general" if node.relation is None else "bag" if core.relations[node.relation].is_bag else "input"
    hidden = "" if node in core.tree.connex else " hidden"
    radius = 17 if node.relation is None else 6
    place = f'x="{box.x:.1f}" y="{box.y:.1f}" width="{box.width:.1f}" height="{BOX_HEIGHT}"'
    rect = f'<rect class="{kind}" {place} rx="{radius}"/>'
    return f'<g class="node{hidden}">{rect}{_text(box.x + 11, box.y + 22, box.label)}</g>'


def _text(x: float, y: float, content: str, style: str = "") -> str:
    attribute = f' class="{style}"' if style else ""
    return f'<text x="{x:.1f}" y="{y:.1f}"{attribute}>{escape(content)}</text>'

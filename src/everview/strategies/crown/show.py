"""CROWN's tree in words, as data and as boxes."""

from __future__ import annotations

from typing import Any

from everview.query.show import shown_terms, used_variables
from everview.query.terms import names
from everview.strategies.crown.plan import CrownPlan
from everview.strategies.crown.tree import TreeNode
from everview.strategies.diagram import Box, Diagram, DiagramNode


def diagram(plan: CrownPlan) -> Diagram:
    """The join tree; the links say what a node shares with its parent."""
    return Diagram("tree", _title(plan), f"height {plan.height}", _boxes(plan, plan.tree.root))


def _title(plan: CrownPlan) -> str:
    count = plan.tree_count
    many = f"{count} or more" if plan.has_more_trees else str(count)
    choice = "the only one" if many == "1" else f"the best of {many}"
    cut = ", search cut" if plan.cut else ""
    return f"height {plan.height}, {choice}{cut}"


def _boxes(plan: CrownPlan, node: TreeNode) -> DiagramNode:
    parent = plan.tree.parents[node]
    key = (names(node.attributes & parent.attributes) or "∅") if parent else ""
    children = tuple(_boxes(plan, c) for c in node.children)
    return DiagramNode(_label(plan, node), _box(plan, node), key, node in plan.tree.connex, children)


def _box(plan: CrownPlan, node: TreeNode) -> Box:
    if node.relation is None:
        return Box.GROUP
    return Box.JOIN if plan.relations[node.relation].is_bag else Box.INPUT


def _label(plan: CrownPlan, node: TreeNode) -> str:
    """How a node is shown: [x] for a generalized one, the relation or bag with the variables that matter otherwise."""
    if node.relation is None:
        return f"[{names(node.attributes) or '∅'}]"
    relation = plan.relations[node.relation]
    if relation.is_bag:
        return f"{relation.label} ({names(relation.variables & used_variables(plan.query))})"
    atom = plan.query.atoms[relation.atoms[0]]
    return f"{relation.label}({', '.join(shown_terms(atom, used_variables(plan.query)))})"


def plan_dict(plan: CrownPlan) -> dict[str, Any]:
    """The plan as plain data."""
    bags = [
        {"label": r.label, "variables": sorted(v.name for v in r.variables), "atoms": list(r.atoms)}
        for r in plan.relations
    ]
    return {
        "reduction": plan.reduction,
        "bags": bags if plan.decomposition else None,
        "width": plan.decomposition.width if plan.decomposition else None,
        "fractional_width": str(plan.decomposition.fractional_width) if plan.decomposition else None,
        "added_outputs": sorted(v.name for v in plan.added),
        "tree": tree_dict(plan, plan.tree.root),
        "tree_text": plan.summary,
        "height": plan.height,
        "trees": plan.tree_count,
        "search_cut": plan.cut,
    }


def tree_dict(plan: CrownPlan, node: TreeNode) -> dict[str, Any]:
    """A join tree as nested data; ``key`` is what a node shares with its parent."""
    parent = plan.tree.parents[node]
    return {
        "node": plan.labels[node.relation] if node.relation is not None else None,
        "generalized": node.is_generalized,
        "attributes": sorted(v.name for v in node.attributes),
        "key": sorted(v.name for v in node.attributes & parent.attributes) if parent else [],
        "output": node in plan.tree.connex,
        "children": [tree_dict(plan, c) for c in node.children],
    }

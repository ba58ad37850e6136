"""The demo's shop: changes to its tables, made up with a fixed seed, and written as files while a job reads them."""

from __future__ import annotations

import json
import random
import threading
from collections.abc import Iterator
from dataclasses import dataclass, field
from datetime import date, timedelta
from pathlib import Path
from typing import Any

CITIES = ("Aarhus", "Bergen", "Cork", "Delft", "Evora", "Fulda")
THINGS = {
    "garden": ("spade", "rake", "hose", "lantern"),
    "kitchen": ("kettle", "pan", "whisk", "jug"),
    "office": ("lamp", "desk", "shelf", "clock"),
    "sports": ("ball", "rope", "bench", "net"),
}
CUSTOMERS, PRODUCTS, STEPS, ORDERS = 1_500, 240, 14, 800
FIRST_DAY = date(2026, 1, 1)
Row = dict[str, Any]
Step = dict[str, list[Row]]
TABLES = ("customers", "products", "orders", "lines")


@dataclass
class Shop:
    """What the shop's tables hold, and the random steps that change them."""

    seed: int = 7
    customers: list[Row] = field(default_factory=list)
    products: list[Row] = field(default_factory=list)
    orders: dict[int, Row] = field(default_factory=dict)
    lines: dict[int, list[Row]] = field(default_factory=dict)
    last: str = ""
    """What the last step does, in words."""

    def __post_init__(self) -> None:
        self.chance = random.Random(self.seed)
        self.next_order = 1

    def steps(self) -> Iterator[Step]:
        """The opening, the days of trade, and at last the correction of one price."""
        yield self._opening()
        for day in range(1, STEPS):
            yield self._day(FIRST_DAY + timedelta(days=day))
        yield self._last()

    def _opening(self) -> Step:
        kinds = [(category, thing) for category, things in THINGS.items() for thing in things]
        for i in range(1, CUSTOMERS + 1):
            self.customers.append({"id": i, "name": f"customer {i}", "city": self.chance.choice(CITIES)})
        for i in range(1, PRODUCTS + 1):
            category, thing = kinds[i % len(kinds)]
            price = self.chance.randrange(100, 20_000) / 100
            self.products.append({"id": i, "name": f"{thing} {i}", "category": category, "price": price})
        step: Step = {t: [] for t in TABLES}
        step["customers"] = [{"op": "c", **c} for c in self.customers]
        step["products"] = [{"op": "c", **p} for p in self.products]
        self._sell(step, FIRST_DAY)
        return step

    def _day(self, day: date) -> Step:
        step: Step = {t: [] for t in TABLES}
        open_orders = [o for o in self.orders.values() if o["status"] == "open"]
        for order in self.chance.sample(open_orders, len(open_orders) // 2):
            self._changed(step["orders"], order, status="sent")
        for order in self.chance.sample(open_orders, len(open_orders) // 20):
            step["orders"].append({"op": "d", **self.orders.pop(order["id"])})
            step["lines"] += [{"op": "d", **line} for line in self.lines.pop(order["id"])]
        for product in self.chance.sample(self.products, 2):
            self._changed(step["products"], product, price=round(product["price"] * self.chance.choice((0.9, 1.1)), 2))
        for customer in self.chance.sample(self.customers, 3):
            self._changed(step["customers"], customer, city=self.chance.choice(CITIES))
        self._sell(step, day)
        return step

    def _last(self) -> Step:
        sold = {line["product"] for lines in self.lines.values() for line in lines}
        product = self.products[max(sold) - 1]
        old, new = product["price"], round(product["price"] + 1, 2)
        self.last = f"the price of {product['name']} is corrected from {old:.2f} to {new:.2f}"
        step: Step = {t: [] for t in TABLES}
        self._changed(step["products"], product, price=new)
        return step

    def _sell(self, step: Step, day: date) -> None:
        for _ in range(ORDERS):
            customer = 1 + int(CUSTOMERS * self.chance.random() ** 2)
            order: Row = {"id": self.next_order, "customer": customer, "day": day.isoformat(), "status": "open"}
            self.next_order += 1
            self.orders[order["id"]] = order
            step["orders"].append({"op": "c", **order})
            lines = [
                {
                    "order_id": order["id"],
                    "product": 1 + int(PRODUCTS * self.chance.random() ** 2),
                    "quantity": self.chance.randrange(1, 6),
                }
                for _ in range(self.chance.randrange(1, 5))
            ]
            self.lines[order["id"]] = lines
            step["lines"] += [{"op": "c", **line} for line in lines]

    @staticmethod
    def _changed(rows: list[Row], row: Row, **values: Any) -> None:
        rows.append({"op": "u-", **row})
        row.update(values)
        rows.append({"op": "u+", **row})


AHEAD = 3
"""Steps that may lie unread: on a slow machine the shop waits for its readers."""


class Feeder(threading.Thread):
    """Writes the shop's steps as files, one after the other; the last one waits until the others were read."""

    def __init__(self, folder: Path, pause: float) -> None:
        super().__init__(name="feeder", daemon=True)
        self.folder = folder
        self.pause = pause
        self.shop = Shop()
        self.written = 0
        """Rows of complete steps."""
        self.is_done = False
        self.read = 0
        """Rows that the job has read, as the job tells."""
        self._halt = threading.Event()
        for table in TABLES:
            (folder / table).mkdir(parents=True)

    def run(self) -> None:
        """Write all steps."""
        ends = [0]
        for number, step in enumerate(self.shop.steps()):
            enough = ends[-1] if self.shop.last else ends[max(0, len(ends) - AHEAD)]
            while self.read < enough and not self._halt.wait(0.1):
                pass
            for table, rows in step.items():
                self._write(table, number, rows)
            self.written += sum(map(len, step.values()))
            ends.append(self.written)
            if self._halt.wait(self.pause):
                break
        self.is_done = True

    def halt(self) -> None:
        """Write nothing more."""
        self._halt.set()

    def _write(self, table: str, number: int, rows: list[Row]) -> None:
        if rows:
            hidden = self.folder / table / f".{number:04d}.json"
            hidden.write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
            hidden.rename(self.folder / table / f"{number:04d}.json")

"""Plans of chains of products: theory, every plan tried, and what memory forbids."""

import itertools
import math
import random

import msgspec
import pytest
from benchkit.errors import ConfigError
from benchkit.suites.auto_shard.planner import (  # fmt: skip
    BY_COLUMNS,
    BY_INNER,
    BY_ROWS,
    COLUMNS,
    EVERYWHERE,
    LAYOUTS,
    MOVES,
    PARTIAL,
    REPLICATED,
    ROWS,
    LayerSharding,
    Link,
    ShardingCosts,
    ShardPlanner,
    choices,
)
from benchkit.suites.auto_shard.workloads import ChainWorkload, Kind, StrEnum, parse

FREE, DEAR = Link(0, 0), Link(1e-3, 1e-6)


def costs(devices=4, flop_s=1e-9, create_s=0.0, link=DEAR, sums=DEAR):
    moves = {move: sums if move[0] == PARTIAL else link for move in MOVES}
    return ShardingCosts(devices, 4, flop_s, create_s, 0.0, moves, dict.fromkeys((ROWS, COLUMNS), link))


def planner(name, given=None, end_to_end=False, memory=math.inf):
    return ShardPlanner(parse(name), given or costs(), end_to_end, memory)


@pytest.mark.parametrize("name", ["matmul_4x5x6", "mlp_4x5x6", "mlp_4x5x6x7x8", "relu_4x5"])
def test_parse_reads_workload_sizes(name):
    workload = parse(name)
    sizes = [int(size) for size in name.partition("_")[2].split("x")]
    assert [workload.rows, *workload.widths] == sizes
    products = sum(2 * sizes[0] * k * n for k, n in itertools.pairwise(sizes[1:]))
    assert workload.flops == (products or 2 * 4 * 5)


@pytest.mark.parametrize("name", ["matmul_4x5", "mlp_4x5", "relu_4x5x6", "conv_4x5", "matmul_0x5x6", "matmul_4x5x6.5"])
def test_parse_refuses_unknown_workload(name):
    with pytest.raises(ConfigError, match=f"workload={name}"):
        parse(name)


def test_plans_are_told(golden):
    slow_to_create = costs(create_s=1e-5, link=Link(0, 1e-9))
    plans = {
        "rows are many": planner("matmul_64x64x64").best(), "rows are few": planner("matmul_2x64x64").best(),
        "creating is slow": planner("matmul_64x64x64", slow_to_create, end_to_end=True).best(),
        "axis0": planner("mlp_64x32x48").axis0(), "axis0 that does not divide": planner("matmul_66x32x48").axis0(),
    }  # fmt: skip
    golden("\n".join(f"{name}: {plan}" for name, plan in plans.items()))


def test_matmul_splits_rows_without_messages():
    best = planner("matmul_64x64x64").best()
    assert best.total_s == best.compute_s == pytest.approx(1e-9 * 2 * 64**3 / 4)
    assert best.communicate_s == 0


def test_layer_text_shows_layout_and_moves():
    assert str(LayerSharding(BY_INNER, ROWS, REPLICATED)) == "rows, by inner, summed to whole"


def test_limited_memory_gives_megatron_plan():
    """Columns, then rows of the weights, one sum at the end (1909.08053)."""
    largest = 4 * 256 * 1024 // 4 + 64 * 256 * 4
    best = planner("mlp_8x256x1024x256", memory=largest).best()
    assert [layer.mode for layer in best.layers] == [BY_COLUMNS, BY_INNER]
    assert best.elements <= largest


def test_slow_creation_favors_sharded_weights():
    slow_to_create = costs(create_s=1e-5, link=Link(0, 1e-9))
    best = planner("matmul_64x64x64", slow_to_create, end_to_end=True).best()
    assert best.layers[0].weight_at_rest == ROWS
    assert planner("matmul_64x64x64", slow_to_create).best().layers[0].weight_at_rest == REPLICATED


def test_compute_cost_follows_busiest_device():
    best = planner("matmul_9x8x8", costs(link=FREE)).best()
    assert best.busiest_flops == min(3 * 8 * 8, 9 * 2 * 8) * 2
    assert best.executed_flops == 2 * 9 * 8 * 8


def test_axis0_follows_gt_rule():
    even = planner("mlp_64x32x48").axis0()
    assert even.communicate_s == pytest.approx(DEAR.seconds(4 * 32 * 48))
    uneven = planner("matmul_66x32x48").axis0()
    assert uneven.executed_flops == 4 * 2 * 66 * 32 * 48


def brute_force(given: ShardPlanner):
    """Every plan there is."""
    for start in LAYOUTS:
        for layers in itertools.product(choices(), repeat=len(given.workload.weights)):
            plan = given.start(start)
            for index, layer in enumerate(layers):
                plan = given.add_layer(plan, index, layer)
            yield given.add_fetch(plan)


@pytest.mark.parametrize("seed", range(10))
def test_best_plan_matches_brute_force(seed):
    draw = random.Random(seed)
    workload = ChainWorkload(
        draw.choice([Kind.MATMUL, Kind.MLP]),
        draw.randint(1, 99),
        tuple(draw.randint(1, 99) for _ in range(draw.randint(2, 4))),
    )
    link = lambda: Link(draw.choice([0, 1e-6, 1e-4]), draw.choice([0, 1e-9, 1e-7]))  # noqa: E731
    given = ShardingCosts(
        draw.randint(2, 8), 4, 1e-9, draw.choice([0, 1e-8]), draw.choice([0, 1e-9]),
        {move: link() for move in MOVES}, {layout: link() for layout in (ROWS, COLUMNS)},
    )  # fmt: skip
    every = list(brute_force(ShardPlanner(workload, given, True)))
    memory = draw.choice([math.inf, sorted(plan.elements for plan in every)[len(every) // 3], 1])
    fitting = [plan.total_s for plan in every if plan.elements <= memory]
    best = ShardPlanner(workload, given, True, memory).best()
    if fitting:
        assert best.elements <= memory
        assert best.total_s == pytest.approx(min(fitting))
    else:
        assert best.elements == min(plan.elements for plan in every)
    assert best.total_s <= ShardPlanner(workload, given, True).axis0().total_s * (1 + 1e-9) or memory != math.inf


def test_everywhere_replicates_all_work():
    plans = planner("mlp_8x4x16x4")
    plan = plans.everywhere()
    assert (plan.at_start, plan.layout, plan.communicate_s) == (REPLICATED, REPLICATED, 0)
    assert [(layer.mode, layer.weight_at_rest) for layer in plan.layers] == [(EVERYWHERE, REPLICATED)] * len(
        plans.workload.weights
    )
    assert plan.compute_s == pytest.approx(1e-9 * plans.workload.flops)


@pytest.mark.parametrize(
    ("name", "end_to_end", "elements"),
    [
        ("matmul_8x4x16", False, 8 * 4 + 4 * 16 + 8 * 16),
        ("matmul_8x4x16", True, 0),  # a step creates its operands and fetches its result
        ("mlp_8x4x16x2", False, 8 * 4 + 4 * 16 + 16 * 2 + 8 * 2),
        ("mlp_8x4x16x2", True, 4 * 16 + 16 * 2),  # the weights of an MLP are there beforehand
    ],
)
def test_held_elements_exclude_created_operands(name, end_to_end, elements):
    plans = planner(name, end_to_end=end_to_end)
    assert plans.held_elements(plans.everywhere()) == elements


def test_plan_may_fill_memory_exactly():
    every = list(brute_force(planner("mlp_64x32x48")))
    for size in {plan.elements for plan in every}:
        best = planner("mlp_64x32x48", memory=size).best()
        assert best.total_s == pytest.approx(min(plan.total_s for plan in every if plan.elements <= size))


@pytest.mark.parametrize(
    ("name", "layouts", "creates_whole"),
    [
        ("matmul_64x64x64", (ROWS, ROWS), False),
        ("matmul_64x64x64", (ROWS, REPLICATED), True),
        ("mlp_64x64x64", (ROWS, REPLICATED), False),  # the weights of an MLP are there beforehand
        ("mlp_64x64x64", (REPLICATED, COLUMNS), True),
    ],
)
def test_step_creates_replicated_operand_whole(name, layouts, creates_whole):
    at_start, *weights = layouts
    plans = planner(name, end_to_end=True)
    plan = plans.start(at_start)
    for index, at_rest in enumerate(weights):
        layer = next(layer for layer in choices() if layer.weight_at_rest == at_rest)
        plan = plans.add_layer(plan, index, layer)
    assert plan.at_rest == layouts
    assert plans.creates_whole(plan) == creates_whole
    assert not planner(name).creates_whole(plan)  # resident operands are there beforehand


PRICED = ShardingCosts(4, 4, 1e-9, 1e-3, 1e-2, dict.fromkeys(MOVES, DEAR), dict.fromkeys((ROWS, COLUMNS), DEAR))
"""Creating an element takes 1 ms, touching one 10 ms."""


def test_elementwise_costs_match_hand_count():
    """8 x 6 elements over four devices: two rows of six on each."""
    plans = planner("relu_8x6", PRICED, end_to_end=True)
    rows, whole = plans.start(ROWS), plans.start(REPLICATED)
    assert (rows.create_s, rows.compute_s) == pytest.approx((12e-3, 0.12))
    assert (rows.busiest_flops, rows.executed_flops) == (24, 2 * 48)
    assert (rows.at_rest_elements, rows.passing_elements) == (12, 24)
    assert (whole.busiest_flops, whole.executed_flops) == (96, 4 * 2 * 48)
    fetched = plans.add_fetch(rows)
    assert fetched.fetch_s == pytest.approx(DEAR.seconds(4 * 48))
    assert (fetched.latency_s, fetched.passing_elements) == (DEAR.latency_s, 96)
    assert planner("relu_8x6", PRICED).add_fetch(rows) == rows  # it stays on the devices
    assert planner("relu_8x6", PRICED).start(ROWS).create_s == 0


def test_product_costs_match_hand_count():
    """x [8, 6] by rows, w [6, 10] gathered from rows: each device multiplies [2, 6] by [6, 10] and applies relu."""
    plans = planner("mlp_8x6x10", PRICED)
    begun = plans.start(ROWS)
    assert (begun.compute_s, begun.busiest_flops, begun.executed_flops, begun.passing_elements) == (0, 0, 0, 0)
    by_rows = next(layer for layer in choices() if layer.mode == BY_ROWS and layer.weight_at_rest == ROWS)
    plan = plans.add_layer(begun, 0, by_rows)
    assert plan.compute_s == pytest.approx(1e-9 * 2 * 2 * 6 * 10 + 1e-2 * 2 * 10)
    assert plan.communicate_s == pytest.approx(DEAR.seconds(4 * 6 * 10))
    assert plan.latency_s == DEAR.latency_s
    assert plan.at_rest_elements == 2 * 6 + 2 * 10  # shards of ceil(6 / 4) rows
    assert plan.passing_elements == 2 * 6 + 6 * 10 + 2 * 10 + 2 * 10
    again = plans.add_layer(plan, 0, by_rows)
    assert again.latency_s == 2 * DEAR.latency_s


def test_member_of_an_enumeration_is_its_text():
    class Colour(StrEnum):
        RED = "red"

    assert [str(Colour.RED), f"{Colour.RED}", "|".join(Colour)] == ["red"] * 3
    assert msgspec.json.encode({Colour.RED: Colour.RED}) == b'{"red":"red"}'

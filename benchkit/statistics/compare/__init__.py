"""Compares arms (two trees, builds or settings of the code) by pairs of fresh runs.

Each run gives one number per point, such as the lower quartile of its times; samples of different
runs are never pooled. What is analysed is one log ratio per pair: log(candidate / baseline), above
0 where the candidate is slower. Error rates and power: docs/results/compare.md.

    plan = auto_plan(max_pairs=50)                            # looks
    rounds = order_of_runs(plan.looks[-1], seed=1)            # order
    logs = [log_ratios(baseline, candidate), ...]             # signed_rank, one array per point
    verdicts = judge(logs, floors, fail_on=0.05, level=plan.level)
    plan.goes_on(num_pairs, [verdict.word for verdict in verdicts])
"""

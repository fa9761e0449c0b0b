"""Speed and memory side by side with other code, as ratios measured in one run.

`python -m benchmarks` from the root of the repository; README.md says what is measured and how.
"""

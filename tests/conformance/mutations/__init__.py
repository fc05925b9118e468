"""Broken rules: for each row of the tables, a change of the sources with which the row's test must fail.

A test that passes whatever the broker does shows nothing. `amqp091.py` and `amqp10.py` name a line for each rule, and
what it is replaced with; `python -m tests.conformance.mutations` makes each change in a copy of the sources, runs the
rule's test against that, and says which tests did not notice.
"""

"""Each row of the tables has a change of the sources that its test must notice, and tests do notice."""

import pytest

from tests.conformance.mutations.mutation import Mutation
from tests.conformance.mutations.replaying import CATALOGUES, NOTICED, nodes, replay

# One of each kind: a state, a number, a name, what is kept, what is told. Their tests do not wait for what never comes.
_SHORT = (
    "basic.qos.prefetch-count.01",
    "queue.declare.exclusive.types",
    "tx.commit.transacted",
    "2.6.7.available-floor",
    "4.4.2.other-transaction",
    "4.4.3.acquisition",
)
_ALL = {mutation.rule: (name, mutation) for name, (_, mutations, _) in CATALOGUES.items() for mutation in mutations}


@pytest.mark.parametrize("name", CATALOGUES)
def test_every_row_has_a_mutation(name: str) -> None:
    """Or a reason why it has none; and there is one of nothing else."""
    catalogue, mutations, without = CATALOGUES[name]
    tests = set(nodes(name))
    assert tests == {*catalogue.rules, *catalogue.additions}
    told = [mutation.rule for mutation in mutations]
    assert len(told) == len(set(told))
    assert tests - set(told) == set(without)
    assert all(without.values())


@pytest.mark.parametrize("name", CATALOGUES)
def test_mutations_are_of_the_sources_as_they_are(name: str) -> None:
    """What a mutation replaces stands once in its file: whoever changes that line says what breaks the rule now."""
    assert [fault for mutation in CATALOGUES[name][1] if (fault := mutation.fault())] == []


@pytest.mark.process
@pytest.mark.parametrize("rule", _SHORT)
def test_a_broken_rule_is_noticed(rule: str) -> None:
    """Some of them, replayed; `make mutations` replays all."""
    name, mutation = _ALL[rule]
    assert isinstance(mutation, Mutation)
    assert replay(mutation, nodes(name)[rule]) == NOTICED

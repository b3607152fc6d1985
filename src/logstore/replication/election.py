"""Elections and moves of a partition, as pure functions of the registry's state and the nodes that live.

Kafka's rules with eligible leaders (KIP-966). A replica of the ISR has every record below the high watermark, so it
may lead. An eligible one has them too: it left the ISR when that fell below the minimum, and the high watermark has
stood still since. Any other election may lose acknowledged records, and is called unclean.

A partition moves by lists of replicas to add and to remove (KIP-455). Those to add copy; once they are in sync,
those to remove go. A move drops replicas only where the ISR of those that stay has the minimum (KIP-966).
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence

from logstore.errors import MalformedFactError
from logstore.replication.api import NO_NODE, NodeId, PartitionState


def created(replicas: Iterable[NodeId]) -> PartitionState:
    """Return the state of a new partition: without records every replica is in sync, and none leads yet."""
    assigned = tuple(replicas)
    return PartitionState(assigned, isr=assigned)


def effective_minimum(state: PartitionState, min_insync: int) -> int:
    """Return ``min.insync.replicas``, or the number of replicas if that is smaller, as Kafka does."""
    return min(min_insync, len(state.replicas))


def refuse_older_epoch(name: object, known: PartitionState | None, state: PartitionState) -> None:
    """Refuse a newer state of an older epoch, or with another leader in the same one: I1 would not hold.

    Raises:
        MalformedFactError: a registry was restored from yesterday, or was written to by hand.
    """
    if known is None or (state.leader_epoch, state.leader) == (known.leader_epoch, known.leader):
        return
    if state.leader_epoch <= known.leader_epoch:
        raise MalformedFactError(
            f"{name}: the registry has leader {state.leader} in epoch {state.leader_epoch}, and had leader "
            f"{known.leader} in epoch {known.leader_epoch} before"
        )


def with_isr(state: PartitionState, isr: Collection[NodeId], min_insync: int) -> PartitionState:
    """Return the state with another ISR, and with the eligible replicas that follow from the change."""
    ordered = tuple(node for node in state.replicas if node in isr)
    eligible: tuple[NodeId, ...] = ()
    if len(ordered) < effective_minimum(state, min_insync):
        had_all = {*state.isr, *state.eligible}
        eligible = tuple(node for node in state.replicas if node in had_all and node not in isr)
    return state._replace(isr=ordered, eligible=eligible)


def elect(
    state: PartitionState, live: Collection[NodeId], min_insync: int, *, unclean: bool = False
) -> PartitionState | None:
    """Return the state in which the best replica leads; None if none may lead, or the leader lives.

    The first replica of the assignment that lives and is in the ISR; else an eligible one, which is then the ISR;
    else, if neither ISR nor eligible replicas are left, the last leader. With ``unclean`` any that lives.
    """
    if state.leader in live:
        return None
    candidates = [node for node in state.replicas if node in live]
    for node in candidates:
        if node in state.isr:
            return _led_by(with_isr(state, [each for each in state.isr if each in live], min_insync), node)
    for node in candidates:
        if node in state.eligible:
            return _led_by(with_isr(state, (node,), min_insync), node)
    if not state.isr and not state.eligible and state.last_leader in candidates:
        return _led_by(state._replace(isr=(state.last_leader,)), state.last_leader)
    if unclean and candidates:
        return _led_by(state._replace(isr=(candidates[0],), eligible=()), candidates[0])
    return None


def is_unclean(before: PartitionState, after: PartitionState) -> bool:
    """Whether an election may have lost records that were acknowledged with all of the minimum in sync."""
    return after.leader not in before.isr and after.leader not in before.eligible


def preferred(state: PartitionState, live: Collection[NodeId]) -> PartitionState | None:
    """Return the state in which the preferred leader leads; None if it does, or may not."""
    first = state.replicas[0]
    if state.leader == first or first not in state.isr or first not in live or state.leader == NO_NODE:
        return None
    return _led_by(state, first)


def resigned(state: PartitionState, node: NodeId, live: Collection[NodeId], min_insync: int) -> PartitionState:
    """Return the state after a node that stops has given its place up: another one leads, and the ISR lacks it.

    If no other replica may lead, the node stays as it is: in the ISR, and leader until it has ended.
    """
    others = [each for each in live if each != node]
    if state.leader != node:
        left = [each for each in state.isr if each != node]
        return with_isr(state, left, min_insync) if left and node in state.isr else state
    successors = [each for each in state.replicas if each in state.isr and each in others]
    if not successors:
        return state
    return _led_by(with_isr(state, [each for each in state.isr if each != node], min_insync), successors[0])


def given_up(
    state: PartitionState, node: NodeId, live: Collection[NodeId], min_insync: int, *, unclean: bool = False
) -> PartitionState:
    """Return the state after a node that lives has given its place up, since it cannot open its log.

    Unlike `resigned`, another replica is elected as if the node did not live. If none may lead, the node stays the
    leader by name: its log has what the others lack, and it leads again once the log is open.
    """
    if state.leader in (node, NO_NODE):
        return elect(state, [each for each in live if each != node], min_insync, unclean=unclean) or state
    return resigned(state, node, live, min_insync)


def distrusted(state: PartitionState, node: NodeId, *, is_replaced: bool) -> PartitionState:
    """Return the state after a replica has come back that may have lost records: it is in neither set any more.

    A log that was replaced, by nothing or by a backup, is no last leader either while there are other replicas: it
    would lead, and they would cut what it lacks. A partition that has never been led has lost nothing.
    """
    if state.leader_epoch == 0:
        return state
    without = state._replace(
        isr=tuple(each for each in state.isr if each != node),
        eligible=tuple(each for each in state.eligible if each != node),
    )
    if state.leader == node:
        without = without._replace(leader=NO_NODE, leader_epoch=state.leader_epoch + 1)
    if is_replaced and state.last_leader == node and len(state.replicas) > 1:
        without = without._replace(last_leader=NO_NODE)
    return without


def moved(
    state: PartitionState, target: Sequence[NodeId], live: Collection[NodeId], min_insync: int
) -> PartitionState | None:
    """Return the state in which a partition begins to move to other replicas; None if it may not yet.

    The same state, if it is there, or on its way.

    A move that is under way is replaced: replicas that it would have added, and this one does not, are out at once.
    To cancel it, the target is what the partition had: see `settled_replicas`.
    """
    settled = settled_replicas(state)
    replicas = (*target, *(node for node in settled if node not in target))
    begun = state._replace(
        adding=tuple(node for node in target if node not in settled),
        removing=tuple(node for node in settled if node not in target),
    )
    begun = _narrowed(begun, replicas, live)
    drops = not set(state.replicas) <= set(replicas)
    return None if drops and not _has_minimum(begun, replicas, min_insync) else begun


def finished(state: PartitionState, live: Collection[NodeId], min_insync: int) -> PartitionState | None:
    """Return the state after a move: the replicas to add are in sync, and those to remove gone. None if not yet."""
    if not state.adding and not state.removing:
        return None
    target = tuple(node for node in state.replicas if node not in state.removing)
    if not set(state.adding) <= set(state.isr) or not _has_minimum(state, target, min_insync):
        return None
    ended = _narrowed(state._replace(adding=(), removing=()), target, live)
    # A new epoch tells those that are gone.
    return ended._replace(leader_epoch=state.leader_epoch + 1)


def settled_replicas(state: PartitionState) -> tuple[NodeId, ...]:
    """Return the replicas without those that a move under way adds: what a cancelled move returns to.

    While it is under way those to remove stand behind those that stay.
    """
    return tuple(node for node in state.replicas if node not in state.adding)


def without_leader(state: PartitionState) -> PartitionState:
    """Return the state after the leader is gone, and no other may lead."""
    return state._replace(leader=NO_NODE, leader_epoch=state.leader_epoch + 1)


def _has_minimum(state: PartitionState, target: Collection[NodeId], min_insync: int) -> bool:
    return len(set(state.isr) & set(target)) >= min(min_insync, len(target))


def _narrowed(state: PartitionState, replicas: Sequence[NodeId], live: Collection[NodeId]) -> PartitionState:
    """Return the state with these replicas; another one leads if the leader is not among them."""
    kept = state._replace(
        replicas=tuple(replicas),
        isr=tuple(node for node in replicas if node in state.isr),
        eligible=tuple(node for node in replicas if node in state.eligible),
        last_leader=state.last_leader if state.last_leader in replicas else NO_NODE,
    )
    if state.leader == NO_NODE or state.leader in replicas:
        return kept
    successors = [node for node in kept.isr if node in live]
    return _led_by(kept, successors[0]) if successors else without_leader(kept)


def _led_by(state: PartitionState, node: NodeId) -> PartitionState:
    return state._replace(leader=node, leader_epoch=state.leader_epoch + 1, last_leader=node)

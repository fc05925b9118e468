"""Part 3 §3.5: sources and targets, filters, and what they say of themselves."""

from flintmq.wire.amqp10.states import RELEASED
from flintmq.wire.amqp10.termini import (
    DeleteOnClose,
    DeleteOnNoLinks,
    DeleteOnNoLinksOrMessages,
    DeleteOnNoMessages,
    Source,
    Target,
)
from flintmq.wire.amqp10.values import Array, Described, Symbol, ULong
from flintmq.wire.amqp10.writer import encode_value
from tests.conformance.amqp10.catalogue import clause, rule
from tests.conformance.amqp10.encoding import application_properties, text
from tests.conformance.amqp10.links import Receiver, Sender
from tests.conformance.amqp10.long_encodings import (
    NULL,
    TRUE,
    described,
    list32,
    map32,
    string32,
    uint32,
    ulong64,
)
from tests.conformance.amqp10.peer import Peer, fresh
from tests.conformance.amqp10.queues import Queues
from tests.conformance.amqp10.session import Session

SELECTOR = "apache.org:selector-filter:string"


def selector(text: str) -> Described:
    return Described(Symbol(SELECTOR), text)


def _coloured(session: Session, queues: Queues, *colours: str) -> str:
    """The address of a queue with a message of each of these colours, which is its value, too."""
    address = queues.address()
    session.sender(address).accepted(*(application_properties({"colour": each}) + text(each) for each in colours))
    return address


def source_of(link: Receiver) -> Source:
    assert link.answer.source is not None
    return link.answer.source


def target_of(link: Sender) -> Target:
    target = link.answer.target
    assert isinstance(target, Target)
    return target


# -- filters ----------------------------------------------------------------------------------------------------------


@rule("3.5.1.filter-is-stable")
def test_3_5_1_filter_is_stable(session: Session, queues: Queues) -> None:
    """What it let pass, it lets pass again after a release; what it did not, it does not, whoever asks."""
    address = _coloured(session, queues, "red", "blue")
    source = Source(address=address, filter={"f": selector("colour = 'red'")})
    for _ in range(2):
        receiver = session.receiver(source, credit=3)
        for _ in range(2):
            found = receiver.get()
            assert found.message.value == "red"
            receiver.settle(found, RELEASED)
        receiver.get()
        assert receiver.is_silent()
        receiver.detach()


@rule("3.5.3.filter-checked")
def test_3_5_3_filter_checked(session: Session, queues: Queues) -> None:
    """One that is not known is not in the answer, one that is known is, as it was asked for."""
    asked: dict[str, object] = {"known": selector("colour = 'red'"), "unknown": Described(Symbol("made:up"), "x")}
    receiver = session.receiver(Source(address=queues.address(), filter=asked))
    assert source_of(receiver).filter == {"known": asked["known"]}


@rule("3.5.8.filter-types")
def test_3_5_8_filter_types(session: Session, peer: Peer, queues: Queues) -> None:
    """A value that is not described is refused, and a text for a name is no filter-set."""
    address = queues.address()
    session.receiver(Source(address=address, filter={"f": "not described"})).expect_refusal("amqp:invalid-field")
    filters = map32(string32("name"), encode_value(selector("TRUE")))
    source = described(ulong64(0x28), list32(string32(address), *[NULL] * 6, filters))
    attach = described(ulong64(0x12), list32(string32("raw"), uint32(7), TRUE, NULL, NULL, source))
    peer.write(session.channel, None, attach)
    peer.expect_close("amqp:decode-error")


@clause("3.5.8.null-filter")
def test_3_5_8_null_filter(session: Session, queues: Queues) -> None:
    """Everything comes, and the answer does not have it."""
    address = _coloured(session, queues, "red", "blue")
    receiver = session.receiver(Source(address=address, filter={"f": None}), credit=2)
    assert source_of(receiver).filter == {}
    assert receiver.bodies(2) == ["red", "blue"]


@clause("3.5.8.echoed")
def test_3_5_8_echoed(session: Session, queues: Queues) -> None:
    """Under the name that the receiver gave it, with its text; also when the descriptor came as a number.

    Beside it, one that is not known, which is left out.
    """
    for descriptor in (Symbol(SELECTOR), ULong(0x0000_468C_0000_0004)):
        known: dict[str, object] = {"my own name": Described(descriptor, "colour = 'red'")}
        asked = {**known, "unknown": Described(Symbol("made:up"), "colour = 'red'")}
        receiver = session.receiver(Source(address=queues.address(), filter=asked))
        assert source_of(receiver).filter == known


@clause("3.5.8.selector")
def test_3_5_8_selector(session: Session, queues: Queues) -> None:
    """Those that do not match stay for others; an expression that makes no sense is refused."""
    address = _coloured(session, queues, "red", "blue", "red")
    receiver = session.receiver(Source(address=address, filter={"f": selector("colour LIKE 'b%'")}), credit=3)
    assert receiver.bodies(1) == ["blue"]
    assert receiver.is_silent()
    assert queues.count(address) == 2
    wrong = session.receiver(Source(address=address, filter={"f": selector("colour = ")}))
    wrong.expect_refusal("amqp:invalid-field")


@clause("3.5.8.all-must-pass")
def test_3_5_8_all_must_pass(session: Session, queues: Queues) -> None:
    """Two selectors: only what both let pass."""
    address = queues.address()
    sender = session.sender(address)
    for number in range(6):
        sender.accepted(application_properties({"number": number}) + text(number))
    filters: dict[str, object] = {"a": selector("number > 1"), "b": selector("number < 4")}
    receiver = session.receiver(Source(address=address, filter=filters), credit=6)
    assert receiver.bodies(2) == [2, 3]
    assert receiver.is_silent()


# -- what an answer says ----------------------------------------------------------------------------------------------


@rule("3.5.3.distribution-mode-told")
def test_3_5_3_distribution_mode_told(session: Session, queues: Queues) -> None:
    """move unless copy was asked for."""
    address = queues.address()
    for asked, told in ((None, "move"), ("move", "move"), ("copy", "copy")):
        assert source_of(session.receiver(Source(address=address, distribution_mode=asked))).distribution_mode == told


@clause("3.5.3.capabilities")
def test_3_5_3_capabilities(session: Session, queues: Queues) -> None:
    """A source and a target that were asked for `queue` say that they are one; nothing is said that is not known."""
    address = queues.address()
    asked = ["queue", "made-up"]
    receiver = session.receiver(Source(address=address, capabilities=asked))
    sender = session.sender(Target(address=address, capabilities=asked))
    assert "queue" in source_of(receiver).capabilities
    assert "queue" in target_of(sender).capabilities
    for told in (source_of(receiver).capabilities, target_of(sender).capabilities):
        assert "made-up" not in told


# -- dynamic nodes ----------------------------------------------------------------------------------------------------


def _dynamic_source(session: Session, **fields: object) -> Receiver:
    return session.receiver(Source(dynamic=True, **fields))  # type: ignore[arg-type]


def _dynamic_target(session: Session, **fields: object) -> Sender:
    return session.sender(Target(dynamic=True, **fields))  # type: ignore[arg-type]


@rule("3.5.3.dynamic-no-address-asked")
def test_3_5_3_dynamic_no_address_asked(session: Session, queues: Queues) -> None:
    """An address beside the flag is refused, even that of a queue which is there."""
    _refused_with_address(session, queues.address(), as_source=True)


def _refused_with_address(session: Session, address: str, as_source: bool) -> None:
    link = _dynamic_source(session, address=address) if as_source else _dynamic_target(session, address=address)
    link.expect_refusal("amqp:invalid-field")


@rule("3.5.4.dynamic-no-address-asked")
def test_3_5_4_dynamic_no_address_asked(session: Session, queues: Queues) -> None:
    """An address beside the flag is refused, even that of a queue which is there."""
    _refused_with_address(session, queues.address(), as_source=False)


@rule("3.5.3.dynamic-flag-no-address")
def test_3_5_3_dynamic_flag_no_address(session: Session) -> None:
    """Also the address of nothing: no node is made by that name."""
    _refused_with_address(session, "/queues/made-by-nobody", as_source=True)
    session.receiver("/queues/made-by-nobody").expect_refusal("amqp:not-found")


@rule("3.5.4.dynamic-flag-no-address")
def test_3_5_4_dynamic_flag_no_address(session: Session) -> None:
    """Also the address of nothing: no node is made by that name."""
    _refused_with_address(session, "/queues/made-by-nobody", as_source=False)
    session.sender("/queues/made-by-nobody").expect_refusal("amqp:not-found")


def _address(link: Receiver | Sender) -> str:
    terminus = source_of(link) if isinstance(link, Receiver) else target_of(link)
    assert terminus.dynamic
    assert terminus.address
    return terminus.address


@rule("3.5.3.dynamic-address-told")
def test_3_5_3_dynamic_address_told(session: Session) -> None:
    """It can be sent to, and what is sent comes by the link that asked."""
    receiver = _dynamic_source(session)
    session.sender(_address(receiver)).accepted(text("answer"))
    receiver.credit(1)
    assert receiver.bodies(1) == ["answer"]


@rule("3.5.4.dynamic-address-told")
def test_3_5_4_dynamic_address_told(session: Session) -> None:
    """It can be received from, and what the link that asked sends is there."""
    sender = _dynamic_target(session)
    sender.accepted(text("m"))
    assert session.receiver(_address(sender), credit=1).bodies(1) == ["m"]


def _is_named(link: Receiver | Sender) -> None:
    address = _address(link)
    assert link.name in address
    assert link.session.peer.container in address


def _length(session: Session, both: int) -> str:
    """A link name that has so many characters together with the container's."""
    return fresh("long").ljust(both - len(session.peer.container), "x")


@rule("3.5.3.generated-name")
def test_3_5_3_generated_name(session: Session) -> None:
    """Both, as they are; longer names are left out, as RabbitMQ leaves them out, and the node is there."""
    _is_named(_dynamic_source(session))
    _is_named(session.receiver(Source(dynamic=True), name=_length(session, 149)))
    long = session.receiver(Source(dynamic=True), name=_length(session, 150), credit=1)
    assert long.session.peer.container not in _address(long)
    session.sender(_address(long)).accepted(text("m"))
    assert long.bodies(1) == ["m"]


@rule("3.5.4.generated-name")
def test_3_5_4_generated_name(session: Session) -> None:
    """Both, as they are; longer names are left out, as RabbitMQ leaves them out, and the node is there."""
    _is_named(_dynamic_target(session))
    _is_named(session.sender(Target(dynamic=True), name=_length(session, 149)))
    long = session.sender(Target(dynamic=True), name=_length(session, 150))
    assert long.session.peer.container not in _address(long)
    long.accepted(text("m"))


@rule("3.5.3.generated-name-traceable")
def test_3_5_3_generated_name_traceable(session: Session) -> None:
    """A name with a slash and a blank: the readable part of it is there, and the address works."""
    name = fresh("a/b c")
    receiver = session.receiver(Source(dynamic=True), name=name, credit=1)
    _is_traceable(receiver, name)
    session.sender(_address(receiver)).accepted(text("m"))
    assert receiver.bodies(1) == ["m"]


@rule("3.5.4.generated-name-traceable")
def test_3_5_4_generated_name_traceable(session: Session) -> None:
    """A name with a slash and a blank: the readable part of it is there, and the address works."""
    name = fresh("a/b c")
    sender = session.sender(Target(dynamic=True), name=name)
    _is_traceable(sender, name)
    sender.accepted(text("m"))
    assert session.receiver(_address(sender), credit=1).bodies(1) == ["m"]


def _is_traceable(link: Receiver | Sender, name: str) -> None:
    """The name is in it as it is, or percent-encoded, and the container's, too."""
    address = _address(link)
    assert name in address or name.replace("/", "%2F").replace(" ", "%20") in address, address
    assert link.session.peer.container in address


_POLICY: dict[str, object] = {"lifetime-policy": DeleteOnClose()}


@rule("3.5.3.node-properties-only-dynamic")
def test_3_5_3_node_properties_only_dynamic(session: Session, queues: Queues) -> None:
    """Refused beside an address; the source of a queue says none, that of a dynamic node says its own."""
    address = queues.address()
    wrong = session.receiver(Source(address=address, dynamic_node_properties=_POLICY))
    wrong.expect_refusal("amqp:invalid-field")
    assert source_of(session.receiver(address)).dynamic_node_properties == {}
    assert source_of(_dynamic_source(session)).dynamic_node_properties != {}


@rule("3.5.4.node-properties-only-dynamic")
def test_3_5_4_node_properties_only_dynamic(session: Session, queues: Queues) -> None:
    """Refused beside an address; the target at a queue says none, that of a dynamic node says its own."""
    address = queues.address()
    wrong = session.sender(Target(address=address, dynamic_node_properties=_POLICY))
    wrong.expect_refusal("amqp:invalid-field")
    assert target_of(session.sender(address)).dynamic_node_properties == {}
    assert target_of(_dynamic_target(session)).dynamic_node_properties != {}


@rule("3.5.9.lifetime-policy")
def test_3_5_9_lifetime_policy(session: Session) -> None:
    """A text for a policy, and a described type that is none, are refused. Each of the four is told as it was asked
    for, to a receiver and to a sender; asked for none, it is delete-on-close.
    """
    unknown = Described(Symbol("x"), [])
    for asked, condition in (("for ever", "amqp:invalid-field"), (unknown, "amqp:not-implemented")):
        wrong = _dynamic_source(session, dynamic_node_properties={"lifetime-policy": asked})
        wrong.expect_refusal(condition)
    policies = (DeleteOnClose(), DeleteOnNoLinks(), DeleteOnNoMessages(), DeleteOnNoLinksOrMessages())
    for policy in (None, *policies):
        wish = {} if policy is None else {"lifetime-policy": policy}
        for told in (
            source_of(_dynamic_source(session, dynamic_node_properties=wish)),
            target_of(_dynamic_target(session, dynamic_node_properties=wish)),
        ):
            in_place = told.dynamic_node_properties["lifetime-policy"]
            assert in_place == Described(ULong((policy or DeleteOnClose()).descriptor), [])


@rule("3.5.9.supported-dist-modes")
def test_3_5_9_supported_dist_modes(session: Session) -> None:
    """move and copy, in an array of symbols, to a receiver and to a sender."""
    for told in (source_of(_dynamic_source(session)), target_of(_dynamic_target(session))):
        modes = told.dynamic_node_properties["supported-dist-modes"]
        assert isinstance(modes, Array)
        assert modes.kind == "symbol"
        assert modes.items == [Symbol("move"), Symbol("copy")]


@rule("3.5.9.supported-dist-modes-type")
def test_3_5_9_supported_dist_modes_type(session: Session) -> None:
    """A symbol or an array of them is a wish that is understood; a text is none."""
    for modes in (Symbol("move"), Array("symbol", [Symbol("move"), Symbol("copy")])):
        _address(_dynamic_source(session, dynamic_node_properties={"supported-dist-modes": modes}))
    wrong = _dynamic_source(session, dynamic_node_properties={"supported-dist-modes": "move"})
    wrong.expect_refusal("amqp:invalid-field")

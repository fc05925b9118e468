"""Certificates: which one a client sees, when a renewed one counts, and who a client's says it is."""

import asyncio
import os
import ssl
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Literal, cast

import pytest
import trustme

from flintmq.base.errors import ConfigurationError
from flintmq.base.limits import PEM_MAX_BYTES
from flintmq.server import certificates
from flintmq.server.certificates import Tls, tls_of
from flintmq.server.config import CertificateSettings, TlsSettings


@pytest.fixture(scope="module")
def authority() -> trustme.CA:
    return trustme.CA()


def _write(authority: trustme.CA, file: Path, *names: str) -> Path:
    with suppress(FileNotFoundError):
        file.unlink()
    authority.issue_cert(*names).private_key_and_cert_chain_pem.write_to_path(file)
    return file


@pytest.fixture
def settings(authority: trustme.CA, tmp_path: Path) -> TlsSettings:
    authority.cert_pem.write_to_path(tmp_path / "ca.pem")
    return TlsSettings(certificate=_write(authority, tmp_path / "usual.pem", "usual.example"), ca=tmp_path / "ca.pem")


def _handshake(
    context: ssl.SSLContext, authority: trustme.CA, name: str | None, client: ssl.SSLContext | None = None
) -> tuple[ssl.SSLObject, ssl.SSLObject]:
    """Client and server after a handshake."""
    if client is None:
        client = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    client.check_hostname = False
    authority.configure_trust(client)
    up, down = ssl.MemoryBIO(), ssl.MemoryBIO()
    near = client.wrap_bio(down, up, server_hostname=name)
    far = context.wrap_bio(up, down, server_side=True)
    for _ in range(4):
        for side in (near, far):
            with suppress(ssl.SSLWantReadError):
                side.do_handshake()
    return near, far


def _seen(tls: ssl.SSLContext, authority: trustme.CA, name: str | None, client: ssl.SSLContext | None = None) -> str:
    """The name in the certificate that a client sees who asks for one."""
    certificate = _handshake(tls, authority, name, client)[0].getpeercert()
    assert certificate is not None
    return ", ".join(str(name[1]) for name in certificate["subjectAltName"])


def test_names_that_clients_ask_for(authority: trustme.CA, settings: TlsSettings, tmp_path: Path) -> None:
    """Each sees the certificate of its name, by a wildcard for one label, too; all others see the usual one."""
    others = tuple(
        CertificateSettings(_write(authority, tmp_path / f"{at}.pem", names[-1]), names)
        for at, names in enumerate([("One.example", "one.alias"), ("*.two.example",)])
    )
    tls = Tls(settings, others)
    seen = {
        name: _seen(tls.context, authority, name)
        for name in ("one.example", "ONE.alias", "a.two.example", "two.example", "b.a.two.example", "usual.example")
    }
    assert seen == {
        "one.example": "one.alias",
        "ONE.alias": "one.alias",
        "a.two.example": "*.two.example",
        "two.example": "usual.example",
        "b.a.two.example": "usual.example",
        "usual.example": "usual.example",
    }
    assert _seen(tls.context, authority, None) == "usual.example"


def test_a_certificate_that_is_renewed(authority: trustme.CA, settings: TlsSettings) -> None:
    """It is seen by the next client, also by those of a listener that was made before."""
    tls = Tls(settings)
    before = tls.context
    assert settings.certificate is not None
    _write(authority, settings.certificate, "renewed.example")
    tls.reload_if_changed()
    assert _seen(tls.context, authority, None) == "renewed.example"
    assert _seen(before, authority, None) == "renewed.example"
    loaded = tls.loaded
    tls.reload_if_changed()
    assert tls.loaded is loaded


def test_files_that_are_wrong_for_a_while(authority: trustme.CA, settings: TlsSettings) -> None:
    """The certificate of before stays, and the files are read again when they change, not before."""
    tls = Tls(settings)
    assert settings.certificate is not None
    settings.certificate.write_text("half of a certif")
    before = tls.loaded
    for _ in range(2):
        tls.reload_if_changed()
        assert tls.loaded is before
    settings.certificate.unlink()
    tls.reload_if_changed()
    assert _seen(tls.context, authority, None) == "usual.example"
    _write(authority, settings.certificate, "renewed.example")
    tls.reload_if_changed()
    assert _seen(tls.context, authority, None) == "renewed.example"


def test_contents_instead_of_files(authority: trustme.CA, settings: TlsSettings, tmp_path: Path) -> None:
    """What one process has loaded is all that another one needs: certificates, keys and authorities."""
    chain = authority.issue_cert("other.example")
    chain.private_key_pem.write_to_path(tmp_path / "key.pem")
    (tmp_path / "chain.pem").write_bytes(b"".join(each.bytes() for each in chain.cert_chain_pems))
    other = CertificateSettings(tmp_path / "chain.pem", ("other.example",), tmp_path / "key.pem")
    loaded = Tls(replace(settings, verify="required"), (other,)).loaded
    for file in loaded.pems:
        file.unlink()
    tls = Tls(loaded.settings, loaded.others, loaded.pems.__getitem__)
    for name in ("usual.example", "other.example"):
        client = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
        authority.issue_cert("client.example").configure_cert(client)
        client.check_hostname = False
        _near, far = _handshake(tls.context, authority, name, client)
        assert far.getpeercert() is not None
        assert _seen(tls.context, authority, name, client) == name


def test_files_that_are_too_large(settings: TlsSettings) -> None:
    """No note to an I/O worker could contain them."""
    assert settings.certificate is not None
    with settings.certificate.open("a") as file:
        file.write("# a comment\n" * (PEM_MAX_BYTES // 12))
    with pytest.raises(ConfigurationError, match=f"{PEM_MAX_BYTES} is the most"):
        Tls(settings)


def test_other_settings(authority: trustme.CA, settings: TlsSettings, tmp_path: Path) -> None:
    """They count for everybody who holds on to what there was."""
    tls = Tls(settings)
    before = tls.context
    other = replace(settings, certificate=_write(authority, tmp_path / "other.pem", "other.example"))
    tls.become(Tls(other))
    assert _seen(before, authority, None) == _seen(tls.context, authority, None) == "other.example"
    tls.become(Tls(replace(other, minimum_version="1.3")))
    old = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    old.maximum_version = ssl.TLSVersion.TLSv1_2
    with pytest.raises(ssl.SSLError):
        _handshake(before, authority, None, old)
    tls.become(Tls(replace(other, verify="required")))
    with pytest.raises(ssl.SSLError, match="peer did not return a certificate"):
        _handshake(before, authority, None, old)


def test_ciphers_and_versions(authority: trustme.CA, settings: TlsSettings) -> None:
    """TLS 1.2 has keys for each connection and authenticated ciphers alone; the settings may ask for TLS 1.3."""
    old = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    old.maximum_version = ssl.TLSVersion.TLSv1_2
    cipher = _handshake(Tls(settings).context, authority, None, old)[0].cipher()
    assert cipher is not None
    assert cipher[0].startswith("ECDHE-")
    assert cipher[0].endswith(("GCM-SHA256", "GCM-SHA384", "POLY1305"))
    weak = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    weak.maximum_version = ssl.TLSVersion.TLSv1_2
    weak.set_ciphers("AES128-SHA:AES256-GCM-SHA384:ECDHE-RSA-AES128-SHA")
    with pytest.raises(ssl.SSLError):
        _handshake(Tls(settings).context, authority, None, weak)
    with pytest.raises(ssl.SSLError):
        _handshake(Tls(replace(settings, minimum_version="1.3")).context, authority, None, old)


def test_who_a_certificate_says_a_client_is(authority: trustme.CA, settings: TlsSettings) -> None:
    """The common name, or the alternative name of one kind and place; without either, nobody."""
    certificate = {
        "subject": ((("organizationName", "o"),), (("commonName", "anna"),)),
        "subjectAltName": (
            ("DNS", "a.example"),
            ("URI", "spiffe://example/anna"),
            ("email", "anna@mail.example"),
            ("DNS", "b.example"),
            ("IP Address", "10.1.2.3"),
        ),
    }
    verifying = replace(settings, verify="optional")
    assert Tls(verifying).identity(certificate) == "anna"
    assert Tls(settings).identity(certificate) == ""
    assert Tls(verifying).identity(None) == ""
    wanted: list[tuple[Literal["dns", "uri", "email", "ip"], int]] = [
        ("dns", 0),
        ("dns", 1),
        ("dns", 2),
        ("uri", 0),
        ("email", 0),
        ("ip", 0),
        ("ip", 1),
    ]
    found = [
        Tls(
            replace(verifying, login_from="subject_alternative_name", login_san_type=kind, login_san_index=index)
        ).identity(certificate)
        for kind, index in wanted
    ]
    assert found == [
        "a.example",
        "b.example",
        "",
        "spiffe://example/anna",
        "anna@mail.example",
        "10.1.2.3",
        "",
    ]


def test_two_common_names(settings: TlsSettings) -> None:
    """A certificate that says two things of its holder says nothing."""
    certificate = {"subject": ((("commonName", "anna"),), (("commonName", "admin"),))}
    assert Tls(replace(settings, verify="optional")).identity(certificate) == ""


def test_settings_that_make_no_sense(settings: TlsSettings, tmp_path: Path) -> None:
    """They are refused with what is missing."""
    assert tls_of(TlsSettings()) is None
    assert settings.certificate is not None
    with pytest.raises(ConfigurationError, match="tls.ca has no effect without tls.certificate"):
        tls_of(TlsSettings(ca=settings.ca))
    with pytest.raises(ConfigurationError, match="need a tls.certificate"):
        tls_of(TlsSettings(), (CertificateSettings(settings.certificate, ("a",)),))
    with pytest.raises(ConfigurationError, match="tls.ca must name the authority"):
        tls_of(replace(settings, ca=None, verify="required"))
    with pytest.raises(ConfigurationError, match=r"certificates\[0\]\.certificate .* cannot be used"):
        tls_of(settings, (CertificateSettings(tmp_path / os.devnull, ("a",), tmp_path / "none"),))


def test_a_look_at_certificates_that_fails_is_not_the_last(monkeypatch: pytest.MonkeyPatch) -> None:
    """Whatever goes wrong with one, the next finds the files that were renewed."""
    monkeypatch.setattr(certificates, "_LOOK_SECONDS", 0.001)

    async def watch() -> None:
        loop = asyncio.get_running_loop()
        again = asyncio.Event()

        class Failing:
            looks = 0

            def reload_if_changed(self) -> None:
                self.looks += 1
                if self.looks == 3:
                    loop.call_soon_threadsafe(again.set)
                raise ValueError

        watching = asyncio.create_task(certificates.watch(cast(Tls, Failing())))
        await asyncio.wait_for(again.wait(), 60)
        assert not watching.done()
        watching.cancel()

    asyncio.run(watch())

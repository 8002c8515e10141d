"""New keys and certificates for one federation: an authority that only it trusts, the server's, and clients' keys."""

from __future__ import annotations

import datetime
import ipaddress
from dataclasses import dataclass

from zorba_core.errors import MissingDataError

_DAYS = 365
_LONGEST_COMMON_NAME = 64


@dataclass(frozen=True)
class Authority:
    """PEM texts. The authority's own key is not kept: nothing else can be signed with it."""

    certificate: bytes
    server_certificate: bytes
    server_key: bytes


def new_authority(server: str) -> Authority:
    """Certificates for a server of that name or address, and for localhost; valid for a year.

    Raises:
        MissingDataError: the package ``cryptography``, which Flower brings, is not installed.
    """
    x509, hashes, serialization, ec = _library()
    begin = datetime.datetime.now(datetime.UTC) - datetime.timedelta(hours=1)
    end = begin + datetime.timedelta(days=_DAYS)

    def named(common_name: str):
        return x509.Name([x509.NameAttribute(x509.oid.NameOID.COMMON_NAME, common_name[:_LONGEST_COMMON_NAME])])

    def builder(subject, issuer, key):
        return (
            x509.CertificateBuilder()
            .subject_name(subject)
            .issuer_name(issuer)
            .public_key(key.public_key())
            .serial_number(x509.random_serial_number())
            .not_valid_before(begin)
            .not_valid_after(end)
        )

    authority_key, server_key = (ec.generate_private_key(ec.SECP384R1()) for _ in range(2))
    issuer = named("zorba-ca")
    authority = (
        builder(issuer, issuer, authority_key)
        .add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
        .add_extension(
            x509.KeyUsage(
                digital_signature=True,
                content_commitment=False,
                key_encipherment=False,
                data_encipherment=False,
                key_agreement=False,
                key_cert_sign=True,
                crl_sign=True,
                encipher_only=False,
                decipher_only=False,
            ),
            critical=True,
        )
        .add_extension(x509.SubjectKeyIdentifier.from_public_key(authority_key.public_key()), critical=False)
        .sign(authority_key, hashes.SHA384())
    )
    names = [x509.DNSName("localhost"), x509.IPAddress(ipaddress.ip_address("127.0.0.1"))]
    try:
        names.append(x509.IPAddress(ipaddress.ip_address(server)))
    except ValueError:
        names.append(x509.DNSName(server))
    certificate = (
        builder(named(server), issuer, server_key)
        .add_extension(x509.SubjectAlternativeName(names), critical=False)
        .add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
        .add_extension(x509.AuthorityKeyIdentifier.from_issuer_public_key(authority_key.public_key()), critical=False)
        .sign(authority_key, hashes.SHA384())
    )
    pem = serialization.Encoding.PEM
    return Authority(
        authority.public_bytes(pem),
        certificate.public_bytes(pem),
        server_key.private_bytes(pem, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()),
    )


def client_key() -> tuple[bytes, bytes]:
    """(private, public) of a client, as ``ssh-keygen -t ecdsa -b 384`` writes them."""
    _, _, serialization, ec = _library()
    key = ec.generate_private_key(ec.SECP384R1())
    private = key.private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.OpenSSH, serialization.NoEncryption()
    )
    public = key.public_key().public_bytes(serialization.Encoding.OpenSSH, serialization.PublicFormat.OpenSSH)
    return private, public + b"\n"


def _library():
    try:
        from cryptography import x509
        from cryptography.hazmat.primitives import hashes, serialization
        from cryptography.hazmat.primitives.asymmetric import ec
    except ImportError:
        raise MissingDataError(
            "keys need Flower's extra: pip install -c constraints.txt torch==2.13.0 -e '.[flower]'"
        ) from None
    return x509, hashes, serialization, ec

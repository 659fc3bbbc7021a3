from google.protobuf.internal import containers as _containers
from google.protobuf import descriptor as _descriptor
from google.protobuf import message as _message
from collections.abc import Iterable as _Iterable, Mapping as _Mapping
from typing import ClassVar as _ClassVar, Optional as _Optional, Union as _Union

DESCRIPTOR: _descriptor.FileDescriptor

class Ask(_message.Message):
    __slots__ = ("terms", "nonce", "schema", "header", "packet", "chunk")
    TERMS_FIELD_NUMBER: _ClassVar[int]
    NONCE_FIELD_NUMBER: _ClassVar[int]
    SCHEMA_FIELD_NUMBER: _ClassVar[int]
    HEADER_FIELD_NUMBER: _ClassVar[int]
    PACKET_FIELD_NUMBER: _ClassVar[int]
    CHUNK_FIELD_NUMBER: _ClassVar[int]
    terms: Terms
    nonce: bytes
    schema: str
    header: Header
    packet: bytes
    chunk: bytes
    def __init__(self, terms: _Optional[_Union[Terms, _Mapping]] = ..., nonce: _Optional[bytes] = ..., schema: _Optional[str] = ..., header: _Optional[_Union[Header, _Mapping]] = ..., packet: _Optional[bytes] = ..., chunk: _Optional[bytes] = ...) -> None: ...

class Answer(_message.Message):
    __slots__ = ("proof", "terms", "header", "packet", "chunk", "taken")
    PROOF_FIELD_NUMBER: _ClassVar[int]
    TERMS_FIELD_NUMBER: _ClassVar[int]
    HEADER_FIELD_NUMBER: _ClassVar[int]
    PACKET_FIELD_NUMBER: _ClassVar[int]
    CHUNK_FIELD_NUMBER: _ClassVar[int]
    TAKEN_FIELD_NUMBER: _ClassVar[int]
    proof: Proof
    terms: Terms
    header: Header
    packet: bytes
    chunk: bytes
    taken: bool
    def __init__(self, proof: _Optional[_Union[Proof, _Mapping]] = ..., terms: _Optional[_Union[Terms, _Mapping]] = ..., header: _Optional[_Union[Header, _Mapping]] = ..., packet: _Optional[bytes] = ..., chunk: _Optional[bytes] = ..., taken: _Optional[bool] = ...) -> None: ...

class Terms(_message.Message):
    __slots__ = ("protocol", "federation", "run", "algorithm", "schema")
    PROTOCOL_FIELD_NUMBER: _ClassVar[int]
    FEDERATION_FIELD_NUMBER: _ClassVar[int]
    RUN_FIELD_NUMBER: _ClassVar[int]
    ALGORITHM_FIELD_NUMBER: _ClassVar[int]
    SCHEMA_FIELD_NUMBER: _ClassVar[int]
    protocol: int
    federation: str
    run: str
    algorithm: str
    schema: str
    def __init__(self, protocol: _Optional[int] = ..., federation: _Optional[str] = ..., run: _Optional[str] = ..., algorithm: _Optional[str] = ..., schema: _Optional[str] = ...) -> None: ...

class Proof(_message.Message):
    __slots__ = ("certificate", "signature")
    CERTIFICATE_FIELD_NUMBER: _ClassVar[int]
    SIGNATURE_FIELD_NUMBER: _ClassVar[int]
    certificate: bytes
    signature: bytes
    def __init__(self, certificate: _Optional[bytes] = ..., signature: _Optional[bytes] = ...) -> None: ...

class Header(_message.Message):
    __slots__ = ("terms", "sender", "incarnation", "event", "length", "digest")
    TERMS_FIELD_NUMBER: _ClassVar[int]
    SENDER_FIELD_NUMBER: _ClassVar[int]
    INCARNATION_FIELD_NUMBER: _ClassVar[int]
    EVENT_FIELD_NUMBER: _ClassVar[int]
    LENGTH_FIELD_NUMBER: _ClassVar[int]
    DIGEST_FIELD_NUMBER: _ClassVar[int]
    terms: Terms
    sender: str
    incarnation: int
    event: int
    length: int
    digest: bytes
    def __init__(self, terms: _Optional[_Union[Terms, _Mapping]] = ..., sender: _Optional[str] = ..., incarnation: _Optional[int] = ..., event: _Optional[int] = ..., length: _Optional[int] = ..., digest: _Optional[bytes] = ...) -> None: ...

class Gossip(_message.Message):
    __slots__ = ("format", "deny_version", "deny", "records")
    FORMAT_FIELD_NUMBER: _ClassVar[int]
    DENY_VERSION_FIELD_NUMBER: _ClassVar[int]
    DENY_FIELD_NUMBER: _ClassVar[int]
    RECORDS_FIELD_NUMBER: _ClassVar[int]
    format: int
    deny_version: int
    deny: Signed
    records: _containers.RepeatedCompositeFieldContainer[Signed]
    def __init__(self, format: _Optional[int] = ..., deny_version: _Optional[int] = ..., deny: _Optional[_Union[Signed, _Mapping]] = ..., records: _Optional[_Iterable[_Union[Signed, _Mapping]]] = ...) -> None: ...

class Signed(_message.Message):
    __slots__ = ("body", "signature")
    BODY_FIELD_NUMBER: _ClassVar[int]
    SIGNATURE_FIELD_NUMBER: _ClassVar[int]
    body: bytes
    signature: bytes
    def __init__(self, body: _Optional[bytes] = ..., signature: _Optional[bytes] = ...) -> None: ...

class MemberRecord(_message.Message):
    __slots__ = ("id", "address", "incarnation", "nonce", "version", "left", "certificate")
    ID_FIELD_NUMBER: _ClassVar[int]
    ADDRESS_FIELD_NUMBER: _ClassVar[int]
    INCARNATION_FIELD_NUMBER: _ClassVar[int]
    NONCE_FIELD_NUMBER: _ClassVar[int]
    VERSION_FIELD_NUMBER: _ClassVar[int]
    LEFT_FIELD_NUMBER: _ClassVar[int]
    CERTIFICATE_FIELD_NUMBER: _ClassVar[int]
    id: str
    address: str
    incarnation: int
    nonce: bytes
    version: int
    left: bool
    certificate: bytes
    def __init__(self, id: _Optional[str] = ..., address: _Optional[str] = ..., incarnation: _Optional[int] = ..., nonce: _Optional[bytes] = ..., version: _Optional[int] = ..., left: _Optional[bool] = ..., certificate: _Optional[bytes] = ...) -> None: ...

class Denied(_message.Message):
    __slots__ = ("version", "serials")
    VERSION_FIELD_NUMBER: _ClassVar[int]
    SERIALS_FIELD_NUMBER: _ClassVar[int]
    version: int
    serials: _containers.RepeatedScalarFieldContainer[bytes]
    def __init__(self, version: _Optional[int] = ..., serials: _Optional[_Iterable[bytes]] = ...) -> None: ...
